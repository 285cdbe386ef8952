// Who read and wrote which memory last, and whether what is done now is ordered
// behind it.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clocks.h"
#include "regions.h"

namespace ferry::races {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
using Place = int64_t;
constexpr Place kNowhere = -1;

// `races/watching.py` has the same list.
enum class Race : int {
  kHostReads = 1,       // what a copy may still be writing
  kHostOverwrites = 2,  // what a copy may still be reading, or writing
  kReadsUnwritten = 3,  // a stream reads what another may still be writing
  kOverwritesRead = 4,
  kOverwritesWritten = 5,
  kReused = 6,          // memory goes to the next tensor while another stream may still use it
  kHostUsesDevice = 7,  // device memory, by its address
};

struct Access {
  StreamIndex stream;
  Time time;
  Place place;
  const char* name;  // of the operator; lasts as long as the process
  Region region;
};

struct Report {
  Race race;
  Access now;
  Access earlier;
};

// One storage.
struct Location {
  explicit Location(c10::StorageImpl* of) : storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(of)) {}

  WeakStorage storage;  // its address is not used again as long as this is held
  const void* data = nullptr;
  size_t bytes = 0;
  StreamIndex made_on = kHost;  // whose the memory is when it is freed; kHost: not known
  Time number = 0;              // in the order of all that were made
  bool is_written = false;
  std::vector<Access> writes, reads;
  std::vector<StreamIndex> kept_for;  // record_stream
};

// What is done with a tensor.
struct Use {
  c10::StorageImpl* storage;
  Region region;
  bool writes;
};

class Accesses {
 public:
  explicit Accesses(Timeline& timeline) : timeline_(timeline) {}

  // A stream uses memory, at a time of its own.
  void use(const Use& use, const Access& access, std::vector<Report>& reports) {
    auto& location = at(use.storage);
    if (use.writes && !location.is_written) {
      location.is_written = true;
      look_for_reuse(location, access, reports);
    }
    touch(location, use.writes, access, reports);
    if (access.stream != location.made_on && location.made_on != kHost && !timeline_.at(access.stream).of_library) {
      abroad_[use.storage] = ++number_;
    }
  }

  // The host uses memory; of a device's it can only be what a copy reads or
  // writes.
  void use_on_host(const Use& use, const Access& access, std::vector<Report>& reports) {
    const auto found = locations_.find(use.storage);
    if (found == locations_.end() || !is_same(found->second, use.storage)) {
      return;
    }
    auto& location = found->second;
    compare(location.writes, access, use.writes ? Race::kHostOverwrites : Race::kHostReads, reports);
    if (use.writes) {
      compare(location.reads, access, Race::kHostOverwrites, reports);
    }
  }

  // Whether a stream may still write there.
  bool is_pending(c10::StorageImpl* storage, const Region& region) {
    const auto found = locations_.find(storage);
    return found != locations_.end() && is_same(found->second, storage) &&
           std::any_of(found->second.writes.begin(), found->second.writes.end(), [&](const Access& each) {
             return !timeline_.is_before(each.stream, each.time, kHost) && each.region.meets(region);
           });
  }

  // Memory that a stream was given.
  void made(c10::StorageImpl* storage, StreamIndex stream) {
    auto& location = at(storage);
    location.made_on = stream;
    location.number = ++number_;
  }

  bool is_abroad(c10::StorageImpl* storage) const { return abroad_.count(storage) != 0; }

  bool knows(c10::StorageImpl* storage) {
    const auto found = locations_.find(storage);
    return found != locations_.end() && is_same(found->second, storage);
  }

  void keep_for(c10::StorageImpl* storage, StreamIndex stream) {
    auto& kept = at(storage).kept_for;
    if (std::find(kept.begin(), kept.end(), stream) == kept.end()) {
      kept.push_back(stream);
    }
  }

  void forget(c10::StorageImpl* storage) {
    locations_.erase(storage);
    abroad_.erase(storage);
  }

  // The storage in which an address lies, and where in it; null for none.
  std::pair<c10::StorageImpl*, size_t> find(const void* address) {
    for (auto& [storage, location] : locations_) {
      const auto* start = static_cast<const char*>(location.data);
      const auto* wanted = static_cast<const char*>(address);
      if (wanted >= start && wanted < start + location.bytes && !location.storage.expired()) {
        return {const_cast<c10::StorageImpl*>(storage), static_cast<size_t>(wanted - start)};
      }
    }
    return {nullptr, 0};
  }

  // Who wrote last where an address lies; null where that is not known.
  const Access* last_write(const void* address) {
    const auto* storage = find(address).first;
    const auto found = locations_.find(storage);
    return found == locations_.end() || found->second.writes.empty() ? nullptr : &found->second.writes.back();
  }

 private:
  static constexpr size_t kMostOfOne = 64;  // accesses that are kept of one storage

  static bool is_same(const Location& location, const c10::StorageImpl* storage) {
    return !location.storage.expired() && location.data == storage->data_ptr().get();
  }

  // Made anew where the storage has other memory now.
  Location& at(c10::StorageImpl* storage) {
    auto found = locations_.find(storage);
    if (found != locations_.end() && is_same(found->second, storage)) {
      return found->second;
    }
    if (found != locations_.end()) {
      forget(storage);
    }
    if (locations_.size() >= sweep_at_) {
      sweep();
    }
    auto& made = locations_.emplace(storage, Location(storage)).first->second;
    made.data = storage->data_ptr().get();
    made.bytes = storage->nbytes();
    return made;
  }

  // Forget storages that are gone, but for those whose memory must not be used
  // again yet.
  void sweep() {
    for (auto each = locations_.begin(); each != locations_.end();) {
      each =
          each->second.storage.expired() && abroad_.count(each->first) == 0 ? locations_.erase(each) : std::next(each);
    }
    sweep_at_ = std::max<size_t>(1024, 2 * locations_.size());
  }

  void touch(Location& location, bool writes, const Access& access, std::vector<Report>& reports) {
    compare(location.writes, access, writes ? Race::kOverwritesWritten : Race::kReadsUnwritten, reports);
    if (writes) {
      compare(location.reads, access, Race::kOverwritesRead, reports);
      drop_covered(location.reads, access.region);
      drop_covered(location.writes, access.region);
      keep(location.writes, access);
      return;
    }
    location.reads.erase(std::remove_if(location.reads.begin(), location.reads.end(),
                                        [&](const Access& each) {
                                          return each.stream == access.stream && access.region.covers(each.region);
                                        }),
                         location.reads.end());
    keep(location.reads, access);
  }

  static void drop_covered(std::vector<Access>& accesses, const Region& region) {
    accesses.erase(std::remove_if(accesses.begin(), accesses.end(),
                                  [&](const Access& each) { return region.covers(each.region); }),
                   accesses.end());
  }

  static void keep(std::vector<Access>& accesses, const Access& access) {
    if (accesses.size() >= kMostOfOne) {
      accesses.erase(accesses.begin());
    }
    accesses.push_back(access);
  }

  void compare(const std::vector<Access>& earlier, const Access& now, Race race, std::vector<Report>& reports) {
    for (const auto& each : earlier) {
      if (!timeline_.is_before(each.stream, each.time, now.stream) && each.region.meets(now.region)) {
        reports.push_back({race, now, each});
        timeline_.take_for_ordered(each.stream, each.time, now.stream);
      }
    }
  }

  // Memory of a tensor that is gone goes to the next one of the stream that it
  // was made on, whether other streams are done with it or not.
  void look_for_reuse(const Location& location, const Access& now, std::vector<Report>& reports) {
    if (location.made_on != now.stream) {
      return;
    }
    for (auto each = abroad_.begin(); each != abroad_.end();) {
      const auto found = locations_.find(each->first);
      const auto& other = found->second;
      const bool is_gone = other.storage.expired();
      if (!is_gone || other.made_on != now.stream || location.number < each->second) {
        ++each;
        continue;
      }
      for (const auto* accesses : {&other.writes, &other.reads}) {
        for (const auto& access : *accesses) {
          const bool is_kept =
              std::find(other.kept_for.begin(), other.kept_for.end(), access.stream) != other.kept_for.end();
          if (!is_kept && !timeline_.at(access.stream).of_library &&
              !timeline_.is_before(access.stream, access.time, now.stream)) {
            reports.push_back({Race::kReused, now, access});
            timeline_.take_for_ordered(access.stream, access.time, now.stream);
          }
        }
      }
      locations_.erase(found);
      each = abroad_.erase(each);
    }
  }

  Timeline& timeline_;
  std::unordered_map<const c10::StorageImpl*, Location> locations_;
  std::unordered_map<const c10::StorageImpl*, Time> abroad_;  // used by another stream than their own, and when last
  Time number_ = 0;
  size_t sweep_at_ = 1024;
};

}  // namespace ferry::races
