// What is known to be done before what. Each stream has a clock that says how
// far it is behind each of the others, as far as events and waits make it so,
// and the host has one: vector clocks, as in C. Flanagan and S. Freund,
// "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009. The
// threads of the host count as one, in the order in which they were seen: how
// they wait for each other is not known here, and is not doubted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry::races {

using Time = uint64_t;
using StreamIndex = int;

constexpr StreamIndex kHost = -1;
constexpr int kAnyDevice = -1;

class Clock {
 public:
  Time of(StreamIndex stream) const {
    const auto index = static_cast<size_t>(stream);
    return index < times_.size() ? times_[index] : 0;
  }
  void raise(StreamIndex stream, Time time) {
    const auto index = static_cast<size_t>(stream);
    if (index >= times_.size()) {
      times_.resize(index + 1);
    }
    times_[index] = std::max(times_[index], time);
  }
  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) {
      times_.resize(other.times_.size());
    }
    for (size_t i = 0; i < other.times_.size(); i++) {
      times_[i] = std::max(times_[i], other.times_[i]);
    }
  }

 private:
  std::vector<Time> times_;
};

struct Stream {
  Clock clock;
  int device = kAnyDevice;
  std::string name;         // "npu:0 stream 2"
  bool of_library = false;  // of collectives, say, whose library keeps the
                            // memory that it works on
};

// The order of all streams, of one process.
class Timeline {
 public:
  // The stream that a key stands for, which is met for the first time or again.
  StreamIndex stream(const void* key) {
    const auto [found, is_new] = by_key_.emplace(key, static_cast<StreamIndex>(streams_.size()));
    if (is_new) {
      streams_.emplace_back();
      streams_.back().name = "stream " + std::to_string(streams_.size());
    }
    return found->second;
  }
  Stream& at(StreamIndex stream) { return streams_[static_cast<size_t>(stream)]; }
  size_t count() const { return streams_.size(); }

  // One more piece of work of a stream, which is behind all that the host has
  // waited for.
  Time enqueue(StreamIndex stream) {
    auto& clock = at(stream).clock;
    clock.join(host_);
    const Time time = clock.of(stream) + 1;
    clock.raise(stream, time);
    return time;
  }

  void record(const void* event, StreamIndex stream) {
    enqueue(stream);
    events_[event] = at(stream).clock;
  }
  // One that was never recorded is waited for by nobody.
  void wait(StreamIndex stream, const void* event) {
    if (const auto found = events_.find(event); found != events_.end()) {
      at(stream).clock.join(found->second);
    }
  }
  void forget(const void* event) { events_.erase(event); }
  // The later work of one stream waits for all that another has by now.
  void follow(StreamIndex stream, StreamIndex other) {
    enqueue(other);
    at(stream).clock.join(at(other).clock);
  }

  void host_has(StreamIndex stream) { host_.join(at(stream).clock); }
  void host_has_event(const void* event) {
    if (const auto found = events_.find(event); found != events_.end()) {
      host_.join(found->second);
    }
  }
  void host_has_device(int device) {
    for (const auto& each : streams_) {
      if (each.device == device || each.device == kAnyDevice || device == kAnyDevice) {
        host_.join(each.clock);
      }
    }
  }

  // Whether what a stream did at a time is done before what another does now,
  // or before the host goes on.
  bool is_before(StreamIndex stream, Time time, StreamIndex other) {
    return stream == other || (other == kHost ? host_ : at(other).clock).of(stream) >= time;
  }
  // What was told once is taken for ordered from then on.
  void take_for_ordered(StreamIndex stream, Time time, StreamIndex other) {
    (other == kHost ? host_ : at(other).clock).raise(stream, time);
  }

 private:
  std::vector<Stream> streams_;
  std::unordered_map<const void*, StreamIndex> by_key_;
  std::unordered_map<const void*, Clock> events_;
  Clock host_;
};

}  // namespace ferry::races
