// Memory that processes share: a file in memory for each process that sends, a range of its pages for each buffer.
//
// The file has no name, so that nothing stays behind however a process ends, and one descriptor serves all buffers. The
// others open it under /proc/<process>/fd, map their range and close it. Once the sender has gone, so has that entry:
// its memory cannot be had any more, as on a card.
#pragma once

#include <c10/util/Exception.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fcntl.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "settings.h"

namespace ferry {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  int number() const { return number_; }

 private:
  int number_;
};

inline size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

inline size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

class Mapping {
 public:
  Mapping(const Descriptor& file, int64_t offset, size_t bytes) : bytes_(bytes) {
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), offset);
    TORCH_CHECK(base_ != MAP_FAILED, "cannot map ", bytes, " bytes of shared memory: ", std::strerror(errno));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(base_, bytes_); }
  void* base() const { return base_; }

 private:
  void* base_;
  size_t bytes_;
};

using Token = std::array<char, 33>;  // 32 hexadecimal digits and a zero

// The first page of a file. The token tells one process from a later one of the same number.
struct SenderPage {
  Token token;
  std::atomic<int> ended;
};

// The page before a buffer: how often it was sent and is not yet released by who received it.
struct RangePage {
  std::atomic<int64_t> held;
};
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Where a buffer lies; as text, it is the handle that one process sends to another.
struct Address {
  int process = 0;
  int file = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  Token token{};

  std::string text() const {
    return c10::str("ferry ", process, " ", file, " ", offset, " ", bytes, " ", token.data());
  }
  static Address parse(const std::string& text) {
    Address it;
    long long offset = 0;
    long long bytes = 0;
    const int found = std::sscanf(text.c_str(), "ferry %d %d %lld %lld %32s", &it.process, &it.file, &offset, &bytes,
                                  it.token.data());
    it.offset = offset;
    it.bytes = bytes;
    TORCH_CHECK(found == 5 && it.process > 0 && it.file >= 0 && offset > 0 && bytes > 0 &&
                    static_cast<size_t>(offset) % page_size() == 0,
                "this is no handle of shared memory of ", settings().name);
    return it;
  }
};

// The process that a buffer comes from, as seen by one that received it.
class Sender {
 public:
  Sender(const Descriptor& file, int process)
      : page_(file, 0, page_size()), watch_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {}

  const SenderPage& page() const { return *static_cast<const SenderPage*>(page_.base()); }

  // Whether it has ended; it is asked for once a millisecond at most, since this is called for every use.
  bool ended() const {
    if (ended_.load(std::memory_order_relaxed)) {
      return true;
    }
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    if (now < next_.load(std::memory_order_relaxed)) {
      return false;
    }
    constexpr std::chrono::steady_clock::duration pause = std::chrono::milliseconds(1);
    next_.store(now + pause.count(), std::memory_order_relaxed);
    pollfd watched{watch_.number(), POLLIN, 0};
    if (page().ended.load() != 0 || (watch_.number() >= 0 && poll(&watched, 1, 0) == 1)) {
      ended_.store(true, std::memory_order_relaxed);
    }
    return ended_.load(std::memory_order_relaxed);
  }

 private:
  Mapping page_;
  Descriptor watch_;  // -1 on kernels before 5.3: then only an orderly end is seen
  mutable std::atomic<bool> ended_{false};
  mutable std::atomic<int64_t> next_{0};
};

class SharedFile;

// A buffer's pages, mapped by the process that sends it or by one that received it.
class Range {
 public:
  Range(const Descriptor& file, int64_t offset, size_t bytes, std::shared_ptr<const Sender> sender)
      : mapping_(file, offset, page_size() + bytes), offset_(offset), bytes_(bytes), sender_(std::move(sender)) {}
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range();

  void* data() const { return static_cast<char*>(mapping_.base()) + page_size(); }
  std::atomic<int64_t>& held() const { return static_cast<RangePage*>(mapping_.base())->held; }
  int64_t offset() const { return offset_; }
  bool received() const { return sender_ != nullptr; }
  bool sender_ended() const { return received() && sender_->ended(); }

 private:
  Mapping mapping_;
  int64_t offset_;
  size_t bytes_;
  std::shared_ptr<const Sender> sender_;  // null in the process that sends
};

using RangePtr = std::shared_ptr<Range>;

// What this process sends.
class SharedFile {
 public:
  static SharedFile& own() {
    static auto* file = new SharedFile;  // tensors may live until the process ends
    return *file;
  }

  RangePtr range(size_t bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const int64_t offset = end_;
    const auto end = offset + static_cast<int64_t>(page_size() + whole_pages(bytes));
    TORCH_CHECK(ftruncate(file_.number(), end) == 0, "cannot make ", bytes,
                " bytes of shared memory: ", std::strerror(errno));
    auto made = std::make_shared<Range>(file_, offset, bytes, nullptr);
    end_ = end;
    ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(), [](const auto& each) { return each.expired(); }),
                  ranges_.end());
    ranges_.push_back(made);
    return made;
  }

  Address address(const Range& range, size_t bytes) const {
    return {getpid(), file_.number(), range.offset(), static_cast<int64_t>(bytes), page().token};
  }

  // Places in the file are not used twice, and cost nothing once their pages are given back.
  void give_back(int64_t offset, size_t bytes) const {
    fallocate(file_.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
              static_cast<off_t>(page_size() + whole_pages(bytes)));
  }

  // Tell the others that this process ends; returns how many of its buffers they have not released.
  int64_t end() {
    const std::lock_guard<std::mutex> guard(mutex_);
    page().ended.store(1);
    return std::count_if(ranges_.begin(), ranges_.end(), [](const auto& each) {
      const auto range = each.lock();
      return range != nullptr && range->held().load() > 0;
    });
  }

  static std::atomic<bool>& used() {
    static std::atomic<bool> flag{false};
    return flag;
  }

 private:
  SharedFile() : file_(created()), page_(file_, 0, page_size()) {
    std::random_device random;
    for (size_t i = 0; i < 4; i++) {
      std::snprintf(page().token.data() + 8 * i, 9, "%08x", random());
    }
    used().store(true);
  }

  static int created() {
    const int number = memfd_create("torchferry-rehearsal", MFD_CLOEXEC);
    TORCH_CHECK(number >= 0 && ftruncate(number, static_cast<off_t>(page_size())) == 0,
                "cannot make shared memory: ", std::strerror(errno));
    return number;
  }

  SenderPage& page() const { return *static_cast<SenderPage*>(page_.base()); }

  Descriptor file_;
  Mapping page_;
  std::mutex mutex_;
  int64_t end_ = static_cast<int64_t>(page_size());
  std::vector<std::weak_ptr<Range>> ranges_;
};

inline Range::~Range() {
  if (in_bad_fork()) {
    return;  // a copy of what the parent has; only the parent speaks for it
  }
  if (received()) {
    held().fetch_sub(1);
  } else {
    SharedFile::own().give_back(offset_, bytes_);
  }
}

constexpr const char* kSenderEnded = "the process that sent it had ended";

// Map what another process sent; null, and why, where that cannot be.
inline RangePtr open_range(const Address& address, std::string& why) {
  static auto* senders = new std::map<std::string, std::weak_ptr<const Sender>>;
  static auto* mutex = new std::mutex;
  const Descriptor file(
      open(c10::str("/proc/", address.process, "/fd/", address.file).c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (file.number() < 0 && errno != ENOENT && errno != ESRCH) {
    why = std::strerror(errno);
    return {};
  }
  why = kSenderEnded;
  struct stat status{};
  if (file.number() < 0 || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size < address.offset + static_cast<int64_t>(page_size()) + address.bytes) {
    return {};
  }
  std::shared_ptr<const Sender> sender;
  {
    const std::lock_guard<std::mutex> guard(*mutex);
    std::erase_if(*senders, [](const auto& each) { return each.second.expired(); });
    auto& known = (*senders)[address.token.data()];
    sender = known.lock();
    if (sender == nullptr) {
      known = sender = std::make_shared<Sender>(file, address.process);
    }
  }
  if (std::memcmp(sender->page().token.data(), address.token.data(), address.token.size()) != 0) {
    return {};
  }
  return std::make_shared<Range>(file, address.offset, static_cast<size_t>(address.bytes), std::move(sender));
}

}  // namespace ferry
