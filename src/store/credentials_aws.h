/* What the two halves of AWS's sources share: credentials_aws.c needs no server, credentials_aws_servers.c
 * does. */
#ifndef LKI_STORE_CREDENTIALS_AWS_H
#define LKI_STORE_CREDENTIALS_AWS_H

#include "base/json.h"
#include "store/source.h"

/* A value of the profile, from the config file or the credentials file; NULL: in neither. */
lake_status lki_aws_profile(lki_asking *asking, const char *name, const char **out, lake_error *err);
/* {"AccessKeyId", "SecretAccessKey", "Token" or "SessionToken", "Expiration"} into `found`. now_s: the clock
 * of who wrote it, or 0. */
lake_status lki_aws_take_json(lki_asking *asking, const char *who, const lki_json *json, int64_t now_s,
                              lake_error *err);

/* UNSUPPORTED: what is left to AWS's own tool, and how to use it. */
lake_status lki_aws_unsupported(lki_asking *asking, const char *name, lake_error *err);
/* The sources of a profile that need no other: keys in files, its command, its web identity. */
lake_status lki_aws_keys_of_profile(lki_asking *asking, lake_error *err);

lake_status lki_aws_environment(lki_asking *asking, lake_error *err);
lake_status lki_aws_role(lki_asking *asking, lake_error *err);
lake_status lki_aws_web_identity(lki_asking *asking, lake_error *err);
lake_status lki_aws_container(lki_asking *asking, lake_error *err);
lake_status lki_aws_machine(lki_asking *asking, lake_error *err);

#endif
