/* The JSON API of the GCS dialect: what is asked under /storage/v1, /upload/storage/v1 and /download/storage/v1. */
#ifndef FAULTD_GCS_JSON_H
#define FAULTD_GCS_JSON_H

#include "server.h"

bool gcs_json_is(const request *q);
void gcs_json_classify(request *q);
void gcs_json_answer(server *s, request *q, reply *r);
/* code as the XML API has it. */
void gcs_json_error(reply *r, int status, const char *code, const char *message);

#endif
