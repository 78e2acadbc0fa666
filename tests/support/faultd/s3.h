/* What the two XML dialects, S3's and GCS's, share. The differences are asked for by the dialect's name. */
#ifndef FAULTD_S3_H
#define FAULTD_S3_H

#include "server.h"

bool s3_is_gcs(const server *s);
void s3_classify(const server *s, request *q, bool create);
void s3_answer(server *s, request *q, reply *r);
void s3_error(const request *q, reply *r, int status, const char *code, const char *message);

/* Pages: "list-type=2", "?uploads". */
void s3_list(server *s, const request *q, reply *r);
void s3_list_uploads(server *s, const request *q, reply *r);
/* "?delete". */
void s3_delete_many(server *s, const request *q, reply *r);
bool s3_md5_fits(const request *q); /* Content-MD5 is that of the body, or not given */
/* Multipart uploads. */
void s3_upload_begin(server *s, const request *q, reply *r);
void s3_upload_part(server *s, const request *q, reply *r);
void s3_upload_complete(server *s, const request *q, reply *r);
void s3_upload_abort(server *s, const request *q, reply *r);

void s3_no_such_key(const request *q, reply *r);
void s3_taken(const request *q, reply *r);
/* The text between <name> and </name> from *at on, unescaped, or NULL; *at moves behind it. Freed by the caller. */
char *xml_next(const char **at, const char *name);

#endif
