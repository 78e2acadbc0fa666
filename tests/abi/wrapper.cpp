// The C++ layer end to end: what is appended comes back, handles may be moved and may die in any order, a
// failure is an exception with its status, and the end is an empty optional.
#include <lakestream/lakestream.hpp>

#include <cstdio>
#include <cstdlib>
#include <type_traits>

using namespace std::chrono_literals;
namespace lake = lakestream;

static_assert(!std::is_copy_constructible_v<lake::producer> &&
              std::is_nothrow_move_constructible_v<lake::producer>);
static_assert(!std::is_copy_constructible_v<lake::consumer> &&
              std::is_nothrow_move_constructible_v<lake::consumer>);
static_assert(!std::is_copy_constructible_v<lake::namespace_> &&
              std::is_nothrow_move_assignable_v<lake::namespace_>);
static_assert(!std::is_copy_constructible_v<lake::batch> && std::is_nothrow_move_assignable_v<lake::batch>);

#define REQUIRE(what)                                                                                        \
  do {                                                                                                       \
    if (!(what)) {                                                                                           \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                              \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

template <class F> static lake_status status_of(F f) {
  try {
    f();
  } catch (const lake::error &e) {
    REQUIRE(e.what()[0] != 0);
    return e.status();
  }
  return LAKE_OK;
}

static std::optional<lake::batch> first_batch(const lake::namespace_ &ns, const lake::env &env) {
  lake::consumer consumer(ns, env.after(60s));
  return consumer.next(env.after(60s)); // the consumer's object dies here, the bytes stay
}

static void append_three(const lake::namespace_ &ns, const lake::env &env) {
  lake::producer opened(ns, "p", env.after(60s));
  lake::producer producer = std::move(opened);
  REQUIRE(producer.resume().seq == 0);
  for (int32_t i = 0; i < 3; i++) {
    int32_t slices[2][16] = {{i, i, i, i}, {100 + i}};
    producer.append({{slices[0], sizeof slices[0]}, {slices[1], sizeof slices[1]}},
                    static_cast<uint64_t>(i) + 1, env.after(60s));
  }
  REQUIRE(status_of([&] { producer.append({}, 9, env.after(60s)); }) == LAKE_INVALID);
  producer.flush(env.after(60s));
  producer.retire(env.after(60s));
  REQUIRE(producer.stats().committed_count == 3);
}

int main() {
  lake::env env;
  lake_tensor_spec tokens{};
  std::strcpy(tokens.name, "tokens");
  tokens.dtype = LAKE_I32;
  tokens.rank = 1;
  tokens.shape[0] = 16;
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = {2, 1};
  options.tensor_count = 1;
  options.tensors = &tokens;
  REQUIRE(status_of([&] { lake::namespace_::open(env, "mem:wrapper", env.after(60s)); }) == LAKE_NOTFOUND);
  lake::namespace_ ns = lake::namespace_::create(env, "mem:wrapper", options, env.after(60s));
  REQUIRE(ns.info().slice_bytes == 64);
  append_three(ns, env);
  REQUIRE(ns.seal(env.after(60s)) == 3);

  std::optional<lake::batch> kept = first_batch(ns, env);
  lake_consumer_options where = LAKE_CONSUMER_OPTIONS_INIT;
  where.coords = {1, 0};
  std::string cursor;
  {
    lake::consumer consumer(ns, env.after(60s), where);
    ns = lake::namespace_::open(env, "mem:wrapper", env.after(60s)); // the consumer keeps the old handle
    for (int32_t i = 0; i < 3; i++) {
      std::optional<lake::batch> batch = consumer.next(env.after(60s));
      REQUIRE(batch.has_value() && batch->step() == static_cast<uint64_t>(i) && batch->tensor_count() == 1);
      REQUIRE(static_cast<const int32_t *>(batch->tensor("tokens").data)[0] == 100 + i);
      REQUIRE(batch->tensor(0u).bytes == 64 && batch->bytes().bytes == 64);
      REQUIRE(status_of([&] { batch->tensor("labels"); }) == LAKE_INVALID);
      if (i == 1) cursor = consumer.cursor();
    }
    REQUIRE(!consumer.next(env.after(60s)).has_value());
    REQUIRE(consumer.stats().step_count == 3);
  }
  where.cursor = cursor.c_str();
  lake::consumer resumed(ns, env.after(60s), where);
  REQUIRE(resumed.next(env.after(60s))->step() == 2);
  ns.pin_create("default", "step-2", cursor, env.after(60s));
  ns.pin_remove("default", "step-2", env.after(60s));

  REQUIRE(kept->step() == 0 && static_cast<const int32_t *>(kept->bytes().data)[3] == 0);
  std::optional<lake::batch> moved = std::move(kept);
  moved.reset();
  std::puts("ok");
  return 0;
}
