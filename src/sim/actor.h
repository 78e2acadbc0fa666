/* What actors of a schedule share, and the two that speak to the log itself instead of through a client. */
#ifndef LKI_SIM_ACTOR_H
#define LKI_SIM_ACTOR_H

#include "client/namespace.h"
#include "sim/check.h"

#define LKI_SIM_SECOND ((uint64_t)1000 * 1000 * 1000)
#define LKI_SIM_MESH_D 2u
#define LKI_SIM_OFFSET_PER_TGB 3u

lake_deadline lki_sim_in(lki_process *process, uint64_t ns);
/* Sleeps up to ns_max. */
void lki_sim_nap(lki_process *process, uint64_t ns_max);

/* The auditor: claims its id over and over with little patience, and holds every answer against the truth (I5). */
void lki_sim_audit(lki_check *check, lki_process *process, lake_namespace *ns);
/* The lapper: asks again for what is in already, together with what is new. */
void lki_sim_lap(lki_check *check, lki_process *process, lake_namespace *ns);

#endif
