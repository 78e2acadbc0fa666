/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure. */
#ifndef LKI_FEED_UTF8_H
#define LKI_FEED_UTF8_H

#include <lakestream/base.h>

/* Bytes of the valid character at the front; 0: what is there is no character. */
size_t lki_utf8_character(const unsigned char *text, size_t bytes);
/* Offset of the first byte that is not UTF-8; bytes: all of it is. */
size_t lki_utf8_valid_bytes(lake_bytes text);
/* Copy with every bad byte replaced by U+FFFD (3 bytes): dst has room for 3 * text.bytes. Returns the bytes written. */
size_t lki_utf8_replace(lake_bytes text, unsigned char *dst);

#endif
