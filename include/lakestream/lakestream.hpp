// Lakestream for C++17: a thin layer over the C API, header only. Link liblakestream.
//
// Handles are move-only and close themselves. A client keeps what it was opened from alive, so that the order
// in which objects die does not matter. Failures are thrown as lakestream::error, which carries the status;
// the end of a sealed stream is no failure and is told by an empty optional. What each call does, whether it
// blocks and who may call it is said at the C function that it wraps; get() gives that handle for what is not
// wrapped.
#ifndef LAKESTREAM_LAKESTREAM_HPP
#define LAKESTREAM_LAKESTREAM_HPP

#include <lakestream/lakestream.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lakestream {

class error : public std::runtime_error {
public:
  error(lake_status status, const char *text) : std::runtime_error(text), status_(status) {}
  lake_status status() const noexcept { return status_; }

private:
  lake_status status_;
};

namespace detail {

inline void check(lake_status status, const lake_error &err) {
  if (status != LAKE_OK) throw error(status, err.text[0] != 0 ? err.text : lake_status_name(status));
}

// A handle and, in its deleter, whatever it must not outlive.
template <class T> class handle {
public:
  handle(handle &&) noexcept = default;
  handle &operator=(handle &&) noexcept = default;
  handle(const handle &) = delete;
  handle &operator=(const handle &) = delete;
  T *get() const noexcept { return shared_.get(); }

protected:
  handle() = default;
  explicit handle(std::shared_ptr<T> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<T> shared_;
};

template <class T, class Parent>
std::shared_ptr<T> own(T *raw, void (*close)(T *), std::shared_ptr<Parent> parent) {
  return std::shared_ptr<T>(raw, [close, parent = std::move(parent)](T *p) { close(p); });
}

} // namespace detail

class env : public detail::handle<lake_env> {
public:
  env() { open(nullptr); }
  explicit env(const lake_env_options &options) { open(&options); }

  // The deadline that lies this long from now; a negative duration is "do not wait".
  lake_deadline after(std::chrono::milliseconds timeout) const {
    return lake_deadline_after_ms(get(), timeout.count() < 0 ? 0 : static_cast<uint64_t>(timeout.count()));
  }

private:
  friend class namespace_;
  void open(const lake_env_options *options) {
    lake_error err = LAKE_ERROR_INIT;
    lake_env *raw = nullptr;
    detail::check(lake_env_open(options, &raw, &err), err);
    shared_ = std::shared_ptr<lake_env>(raw, lake_env_close);
  }
};

// A namespace; the underscore is there because the bare word is C++'s own.
class namespace_ : public detail::handle<lake_namespace> {
public:
  static namespace_ create(const env &e, const std::string &url, const lake_namespace_options &options,
                           lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    lake_namespace *raw = nullptr;
    detail::check(lake_namespace_create(e.get(), url.c_str(), &options, deadline, &raw, &err), err);
    return namespace_(detail::own(raw, lake_namespace_close, e.shared_));
  }
  static namespace_ open(const env &e, const std::string &url, lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    lake_namespace *raw = nullptr;
    detail::check(lake_namespace_open(e.get(), url.c_str(), deadline, &raw, &err), err);
    return namespace_(detail::own(raw, lake_namespace_close, e.shared_));
  }

  lake_namespace_info info() const {
    lake_namespace_info info;
    lake_namespace_info_get(get(), &info);
    return info;
  }
  lake_store_stats stats() const {
    lake_store_stats stats;
    lake_namespace_stats_get(get(), &stats);
    return stats;
  }
  // Ends the stream; returns its number of steps.
  uint64_t seal(lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    uint64_t step_count = 0;
    detail::check(lake_namespace_seal(get(), deadline, &step_count, &err), err);
    return step_count;
  }
  void pin_create(const std::string &group, const std::string &checkpoint, const std::string &cursor,
                  lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    detail::check(lake_pin_create(get(), group.c_str(), checkpoint.c_str(), cursor.c_str(), deadline, &err),
                  err);
  }
  void pin_remove(const std::string &group, const std::string &checkpoint, lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    detail::check(lake_pin_remove(get(), group.c_str(), checkpoint.c_str(), deadline, &err), err);
  }

private:
  friend class producer;
  friend class consumer;
  using handle::handle;
};

class producer : public detail::handle<lake_producer> {
public:
  producer(const namespace_ &ns, const std::string &id, lake_deadline deadline,
           const lake_producer_options &options = LAKE_PRODUCER_OPTIONS_INIT) {
    lake_error err = LAKE_ERROR_INIT;
    lake_producer *raw = nullptr;
    detail::check(lake_producer_open(ns.get(), id.c_str(), &options, deadline, &resume_, &raw, &err), err);
    shared_ = detail::own(raw, lake_producer_close, ns.shared_);
  }

  // Where to go on in the input: as it stood when this producer opened.
  const lake_producer_resume &resume() const noexcept { return resume_; }

  // slices[d*C + c]; copied before the call returns.
  void append(const std::vector<lake_bytes> &slices, uint64_t offset, lake_deadline deadline,
              lake_bytes state = lake_bytes{nullptr, 0}) {
    lake_error err = LAKE_ERROR_INIT;
    detail::check(lake_producer_append(get(), slices.data(), static_cast<uint32_t>(slices.size()), offset,
                                       state, deadline, &err),
                  err);
  }
  void flush(lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    detail::check(lake_producer_flush(get(), deadline, &err), err);
  }
  void retire(lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    detail::check(lake_producer_retire(get(), deadline, &err), err);
  }
  lake_producer_stats stats() const {
    lake_producer_stats stats;
    lake_producer_stats_get(get(), &stats);
    return stats;
  }

private:
  lake_producer_resume resume_;
};

// One step's slice; its bytes stay until the batch dies. It may outlive the consumer object.
class batch {
public:
  batch(batch &&other) noexcept : consumer_(std::move(other.consumer_)), batch_(other.batch_) {
    std::memset(&other.batch_, 0, sizeof other.batch_);
  }
  batch &operator=(batch &&other) noexcept {
    if (this != &other) {
      release();
      consumer_ = std::move(other.consumer_);
      batch_ = other.batch_;
      std::memset(&other.batch_, 0, sizeof other.batch_);
    }
    return *this;
  }
  batch(const batch &) = delete;
  batch &operator=(const batch &) = delete;
  ~batch() { release(); }

  uint64_t step() const noexcept { return batch_.step; }
  lake_bytes bytes() const noexcept { return {batch_.data, batch_.bytes}; }
  uint32_t tensor_count() const noexcept { return batch_.tensor_count; }
  const lake_tensor &tensor(uint32_t i) const {
    if (i >= batch_.tensor_count) throw error(LAKE_INVALID, "batch: no tensor has that index");
    return batch_.tensors[i];
  }
  const lake_tensor &tensor(const std::string &name) const {
    for (uint32_t i = 0; i < batch_.tensor_count; i++)
      if (name == batch_.tensors[i].name) return batch_.tensors[i];
    throw error(LAKE_INVALID, ("batch: the schema has no tensor " + name).c_str());
  }

private:
  friend class consumer;
  batch(std::shared_ptr<lake_consumer> consumer, const lake_batch &filled)
      : consumer_(std::move(consumer)), batch_(filled) {}
  void release() noexcept {
    if (consumer_ != nullptr) lake_consumer_release(consumer_.get(), &batch_);
    consumer_.reset();
  }
  std::shared_ptr<lake_consumer> consumer_;
  lake_batch batch_;
};

class consumer : public detail::handle<lake_consumer> {
public:
  consumer(const namespace_ &ns, lake_deadline deadline,
           const lake_consumer_options &options = LAKE_CONSUMER_OPTIONS_INIT) {
    lake_error err = LAKE_ERROR_INIT;
    lake_consumer *raw = nullptr;
    detail::check(lake_consumer_open(ns.get(), &options, deadline, &raw, &err), err);
    shared_ = detail::own(raw, lake_consumer_close, ns.shared_);
  }

  // The next step's slice; empty once the stream is sealed and read to its end.
  std::optional<batch> next(lake_deadline deadline) {
    lake_error err = LAKE_ERROR_INIT;
    lake_batch filled;
    lake_status status = lake_consumer_next(get(), deadline, &filled, &err);
    if (status == LAKE_END) return std::nullopt;
    detail::check(status, err);
    return batch(shared_, filled);
  }
  std::string cursor() const {
    char text[LAKE_CURSOR_BYTES];
    lake_consumer_cursor(get(), text);
    return text;
  }
  lake_consumer_stats stats() const {
    lake_consumer_stats stats;
    lake_consumer_stats_get(get(), &stats);
    return stats;
  }
};

} // namespace lakestream

#endif
