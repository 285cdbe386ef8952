// Device tensors in several processes at once, as torch.multiprocessing shares those of CUDA: the receiver works on the
// sender's bytes, which stay until both have let go; the sender's device is charged for them, the receiver's is not.
#pragma once

#include <ATen/EmptyTensor.h>

#include <unordered_map>

#include "alias.h"
#include "shared_file.h"

namespace ferry {

struct SharedBytes {
  RangePtr range;
  StoragePtr before;  // what the bytes lay in until they were shared: its address is the tensor's, and stays taken
};

inline void forget(SharedBytes* shared) { const std::unique_ptr<SharedBytes> gone(shared); }

inline const void* address_of(const SharedBytes& shared) { return shared.range->data(); }

inline void use(const SharedBytes& shared) {
  if (C10_UNLIKELY(shared.range->sender_ended())) {
    emit(Event::kShared, "use", kSenderEnded);
  }
}

// Buffers whose tensors are gone and that other processes hold. They are looked through when another shared buffer
// goes, when memory runs out, and by ipc_collect.
class HeldElsewhere {
 public:
  static HeldElsewhere& instance() {
    static auto* all = new HeldElsewhere;
    return *all;
  }

  void add(RangePtr range, int64_t charged, c10::DeviceIndex device) {
    const std::lock_guard<std::mutex> guard(mutex_);
    parts_.push_back({std::move(range), charged, device});
  }

  bool collect() {
    std::vector<Part> done;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      const auto first = std::stable_partition(parts_.begin(), parts_.end(),
                                               [](const Part& part) { return part.range->held().load() > 0; });
      done.assign(std::make_move_iterator(first), std::make_move_iterator(parts_.end()));
      parts_.erase(first, parts_.end());
    }
    for (const auto& part : done) {
      release(part.device, part.charged);
    }
    return !done.empty();
  }

 private:
  struct Part {
    RangePtr range;
    int64_t charged;
    c10::DeviceIndex device;
  };
  std::mutex mutex_;
  std::vector<Part> parts_;
};

inline bool collect_shared() { return !in_bad_fork() && HeldElsewhere::instance().collect(); }

inline void retire(const Buffer& buffer, const SharedBytes& shared) {
  if (shared.range->received()) {
    return;
  }
  if (!in_bad_fork() && shared.range->held().load() > 0) {
    HeldElsewhere::instance().add(shared.range, buffer.charged, buffer.device);
  } else {
    release(buffer.device, buffer.charged);
  }
  collect_shared();
}

// The storages of this process that lie in shared memory, so that what arrives twice, or comes home, is one storage.
class SharedStorages {
 public:
  static SharedStorages& instance() {
    static auto* all = new SharedStorages;
    return *all;
  }

  StoragePtr find(const Address& address, c10::DeviceIndex device) {
    const auto found = storages_.find(key(address, device));
    return found == storages_.end() ? StoragePtr() : found->second.lock();
  }

  void keep(const Address& address, const StoragePtr& storage) {
    if (storages_.size() >= limit_) {
      for (auto it = storages_.begin(); it != storages_.end();) {
        it = it->second.expired() ? storages_.erase(it) : std::next(it);
      }
      limit_ = std::max<size_t>(128, 2 * storages_.size());
    }
    storages_.insert_or_assign(key(address, storage->device().index()), WeakStorage(storage));
  }

  std::mutex& mutex() { return mutex_; }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  static std::string key(const Address& address, c10::DeviceIndex device) {
    return c10::str(address.token.data(), " ", address.offset, " ", static_cast<int>(device));
  }

  std::mutex mutex_;
  std::unordered_map<std::string, WeakStorage> storages_;
  size_t limit_ = 128;
};

inline StoragePtr twin_on(const RangePtr& range, size_t bytes) {
  auto* owner = std::make_unique<RangePtr>(range).release();
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes),
      c10::DataPtr(
          range->data(), owner, [](void* held) { const std::unique_ptr<RangePtr> gone(static_cast<RangePtr*>(held)); },
          c10::Device(c10::kCPU)),
      c10::GetCPUAllocator(), /*resizable=*/!range->received());
}

// The whole pages within a block of memory, whose address stays taken, are the system's again.
inline void give_back_pages(void* data, size_t bytes) {
  const auto first = whole_pages(reinterpret_cast<uintptr_t>(data));
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / page_size() * page_size();
  if (first < end) {
    madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
}

// Calls that run on the tensor end first: they would write where nobody looks any more.
inline void move_to_shared(Buffer& buffer, size_t bytes) {
  auto range = SharedFile::own().range(bytes);
  auto shared = std::make_unique<SharedBytes>(SharedBytes{range, {}});
  const bool moved = buffer.twin.replace(twin_on(range, bytes), std::chrono::minutes(1), [&](StoragePtr old) {
    std::memcpy(range->data(), old->data(), bytes);
    give_back_pages(old->mutable_data(), bytes);
    shared->before = std::move(old);
    buffer.shared.store(shared.release());
  });
  TORCH_CHECK(moved, "a tensor of ", settings().name,
              " cannot be sent to another process: work on it has not ended for a minute");
}

// The handle under which another process receives the tensor's storage; empty for no bytes.
inline std::string share(const at::Tensor& tensor) {
  ensure_usable();
  require_strided(tensor);
  TORCH_CHECK(on_device(tensor), "only tensors of ", settings().name, " are shared so, not of ", tensor.device());
  auto storage = StoragePtr::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
  if (storage->nbytes() == 0) {
    return "";
  }
  const c10::DataPtr& data = storage->data_ptr();
  TORCH_CHECK(data.get_deleter() == &delete_buffer,
              "memory that was lent to a tensor cannot be sent to another process; send a clone");
  auto& buffer = *static_cast<Buffer*>(data.get_context());
  if (const auto* shared = buffer.shared.load(); shared != nullptr && shared->range->received()) {
    emit_refusal(Event::kShared, "send", "it came from another process; send a clone");
    TORCH_CHECK(false, "Attempted to send ", settings().title,
                " tensor received from another process; this is not currently supported. Consider cloning before "
                "sending.");
  }
  auto& known = SharedStorages::instance();
  const std::lock_guard<std::mutex> guard(known.mutex());
  if (buffer.shared.load() == nullptr) {
    move_to_shared(buffer, storage->nbytes());
  }
  const auto& range = *buffer.shared.load()->range;
  const auto address = SharedFile::own().address(range, storage->nbytes());
  known.keep(address, storage);
  range.held().fetch_add(1);
  return address.text();
}

// Null, and why, where there is no such memory.
inline StoragePtr received_storage(const Address& address, c10::DeviceIndex device, std::string& why) {
  auto& known = SharedStorages::instance();
  const std::lock_guard<std::mutex> guard(known.mutex());
  if (auto storage = known.find(address, device)) {
    const auto* shared = static_cast<Buffer*>(storage->data_ptr().get_context())->shared.load();
    if (shared != nullptr && shared->range->offset() == address.offset) {  // it was not resized since
      shared->range->held().fetch_sub(1);
      return storage;
    }
  }
  const auto range = open_range(address, why);
  if (range == nullptr) {
    return {};
  }
  const auto bytes = static_cast<size_t>(address.bytes);
  auto buffer = std::make_unique<Buffer>(twin_on(range, bytes), 0, device);
  buffer->shared.store(std::make_unique<SharedBytes>(SharedBytes{range, {}}).release());
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), address.bytes,
                                            c10::DataPtr(other_address(range->data()), buffer.release(), &delete_buffer,
                                                         c10::Device(settings().type, device)),
                                            allocator(),
                                            /*resizable=*/false);
  known.keep(address, storage);
  return storage;
}

// A tensor on a storage that another process sent.
inline at::Tensor receive(const std::string& handle, int64_t device, at::ScalarType dtype, c10::IntArrayRef size,
                          c10::IntArrayRef stride, int64_t offset) {
  ensure_usable();
  const auto address = Address::parse(handle);
  const auto needed = at::detail::computeStorageNbytes(size, stride, c10::elementSize(dtype),
                                                       static_cast<size_t>(std::max<int64_t>(offset, 0)));
  TORCH_CHECK(offset >= 0 && size.size() == stride.size() && needed <= static_cast<size_t>(address.bytes),
              "a tensor that was sent does not fit into its storage");
  std::string why;
  auto storage = received_storage(address, checked(static_cast<c10::DeviceIndex>(device)), why);
  if (storage == nullptr) {
    emit_refusal(Event::kShared, "receive", why);
    TORCH_CHECK(false, settings().title, " error: the memory of a tensor that process ", address.process,
                " sent is not there: ", why,
                ". Keep that process until the receivers are done with the tensor, or send a copy on the CPU");
  }
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(settings().key), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return tensor;
}

}  // namespace ferry
