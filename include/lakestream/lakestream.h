/* Lakestream: a brokerless data plane for foundation-model training. This header brings in all of the C API except
 * the MPI part, which is <lakestream/mpi.h> and liblakestream_mpi. */
#ifndef LAKESTREAM_LAKESTREAM_H
#define LAKESTREAM_LAKESTREAM_H

#define LAKE_VERSION_MAJOR 0
#define LAKE_VERSION_MINOR 1
#define LAKE_VERSION_PATCH 0

#include <lakestream/base.h>
#include <lakestream/store.h>
#include <lakestream/namespace.h>
#include <lakestream/producer.h>
#include <lakestream/consumer.h>
#include <lakestream/reclaim.h>

#endif
