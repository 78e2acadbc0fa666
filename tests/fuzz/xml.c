/* Replies in XML: whatever a server sends, paths and texts keep within their limits, and what is no document is refused. */
#include "store/xml.h"
#include "support/fuzz.h"
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16 /* levels, as store/xml.h promises; an attribute is one more */

static unsigned long accepted;

static bool check_element(void *ctx, const char *path, const char *text) {
  size_t *count = ctx;
  size_t levels = 1;
  ++*count;
  fuzz_expect(path[0] != 0 && path[0] != '/', "a path with no name or a leading slash");
  fuzz_expect(strlen(path) < LKI_XML_PATH_BYTES_MAX, "a path that is too long");
  fuzz_expect(strlen(text) <= LKI_XML_TEXT_BYTES_MAX, "a text that is too long");
  for (const char *at = path; (at = strchr(at, '/')) != NULL; at++) levels++;
  fuzz_expect(levels <= DEPTH_MAX + 1, "a document that is too deep");
  const char *leaf = lki_xml_leaf(path);
  fuzz_expect(leaf >= path && strchr(leaf, '/') == NULL, "a leaf that is none");
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  lake_error err = LAKE_ERROR_INIT;
  size_t count = 0;
  lake_status s = lki_xml_walk(fuzz_env(), (lake_bytes){data, bytes}, "the reply", check_element, &count, &err);
  if (s == LAKE_OK) {
    accepted++;
    fuzz_expect(count > 0, "a document without an element");
  } else {
    fuzz_expect(s == LAKE_UNAVAILABLE, lake_status_name(s));
    fuzz_expect(err.status == s && strstr(err.text, "the reply") != NULL, "an error that names nothing");
  }
  fuzz_expect_nothing_left();
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const texts[] = {
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>b</Name><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><EncodingType>url"
      "</EncodingType><Contents><Key>a%2Fb</Key><Size>12</Size></Contents></ListBucketResult>",
      "<Error><Code>SlowDown</Code><Message>Please &amp; wait &#xe4;</Message></Error>",
      "<EnumerationResults ServiceEndpoint=\"http://x/\"><Blobs><Blob><Name Encoded=\"true\">a%20b</Name><Properties>"
      "<Content-Length>3</Content-Length></Properties></Blob></Blobs><NextMarker/></EnumerationResults>",
      "<a><b><c><d><e><f><g><h><i><j><k><l><m><n><o><p>deep</p></o></n></m></l></k></j></i></h></g></f></e></d></c></b></a>",
      NULL};
  int rc = fuzz_main_texts(argc, argv, texts);
  printf("%lu accepted\n", accepted);
  fuzz_expect(argc > 1 || accepted > 100, "hardly any input was accepted");
  return rc;
}
#endif
