/* The one door to expat: walks a small XML document and hands out the text of its elements by their paths. No
 * DTD, at most 16 levels, 64 KiB a text: a reply that asks for more is refused. Pure. Safe from any thread.
 */
#ifndef LKI_STORE_XML_H
#define LKI_STORE_XML_H

#include <lakestream/sys/store.h>

#define LKI_XML_PATH_BYTES_MAX 512
#define LKI_XML_TEXT_BYTES_MAX ((size_t)64 << 10)

/* Called at the end of each element with its own text, and at its beginning for each attribute, whose path
 * ends in
 * "/@name". The path has no leading slash and no namespaces: "ListBucketResult/Contents/Key". Both are
 * borrowed. false: ends the walk, which is then NOMEM. */
typedef bool lki_xml_fn(void *ctx, const char *path, const char *text);

/* UNAVAILABLE: no well-formed document; what came before the fault was handed out. `what` names it in the
 * error. */
lake_status lki_xml_walk(lake_env *env, lake_bytes document, const char *what, lki_xml_fn *fn, void *ctx,
                         lake_error *err);

/* The last component of a path. */
const char *lki_xml_leaf(const char *path);

#endif
