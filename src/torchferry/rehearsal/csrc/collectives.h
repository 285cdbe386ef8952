// The vendor's collective library on one machine: a c10d backend that lends its tensors to gloo, without a copy.
#pragma once

#include <ATen/ops/cat.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "call.h"

namespace ferry {

using TensorList = std::vector<at::Tensor>;
using TensorLists = std::vector<TensorList>;

// What the vendor's process group refuses, by operation and dtype, in its own words. Set before there is a group.
using Refusals = std::map<std::pair<std::string, c10::ScalarType>, std::string>;
inline Refusals& refusals() {
  static auto* texts = new Refusals;
  return *texts;
}

inline const void* current_stream_key() {
  return stream_key(current_device(), Guard::current_stream(current_device()));
}

// What a card's library does on a stream of its own, told to whoever watches the order: the stream waits for the
// current one, then reads and writes.
class LibraryStream {
 public:
  void reads(const at::Tensor& tensor) const { uses(Order::kReads, tensor); }
  void writes(const at::Tensor& tensor) const { uses(Order::kWrites, tensor); }

 private:
  void uses(Order use, const at::Tensor& tensor) const {
    if (C10_LIKELY(order_watcher.load(std::memory_order_relaxed) == nullptr)) {
      return;
    }
    tell_order(Order::kRecorded, &begun_, current_stream_key());
    tell_order(Order::kWaits, this, &begun_);
    tell_order(use, this, tensor.storage().data_ptr().get(), tensor.storage().nbytes());
  }
  char begun_ = 0;
};

// Gloo's work, whose future holds the device tensors.
class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(int rank, c10d::OpType type, c10::intrusive_ptr<c10d::Work> inner, TensorList outputs,
                 const LibraryStream& stream)
      : c10d::Work(rank, type), inner_(std::move(inner)), outputs_(std::move(outputs)) {
    if (type != c10d::OpType::SEND) {
      for (const auto& each : outputs_) {
        stream.writes(each);
      }
    }
    tell_order(Order::kRecorded, this, &stream);
  }
  ~CollectiveWork() override { tell_order(Order::kEventGone, this); }

  bool isCompleted() override {
    const bool done = inner_->isCompleted();
    if (done) {
      tell_order(Order::kHostHasEvent, this);
    }
    return done;
  }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override {
    inner_->synchronize();
    tell_order(Order::kWaits, current_stream_key(), this);
    c10d::Work::synchronize();  // functional collectives may have registered it, and forget it now
  }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = inner_->wait(timeout);
    tell_order(Order::kWaits, current_stream_key(), this);
    c10d::Work::synchronize();
    return done;
  }
  void abort() override { inner_->abort(); }
  // Who takes the future is taken to wait for it: it knows of no stream here.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    tell_order(Order::kWaits, current_stream_key(), this);
    if (!future_) {
      future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{});
      auto inner = inner_->getFuture();
      inner->addCallback([future = future_, outputs = outputs_](c10::ivalue::Future& done) {
        if (done.hasError()) {
          future->setError(done.exception_ptr());
        } else {
          future->markCompleted(c10::IValue(outputs));
        }
      });
    }
    return future_;
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  TensorList outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// What was started between the beginning and the end of coalescing.
class JoinedWork final : public c10d::Work {
 public:
  JoinedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> parts)
      : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isSuccess(); });
  }
  void synchronize() override {
    for (const auto& part : parts_) {
      part->synchronize();
    }
  }
  bool wait(std::chrono::milliseconds timeout) override {
    bool done = true;
    for (const auto& part : parts_) {
      done = part->wait(timeout) && done;
    }
    return done;
  }
  std::vector<at::Tensor> result() override {
    TensorList outputs;
    for (const auto& part : parts_) {
      const auto own = part->result();
      outputs.insert(outputs.end(), own.begin(), own.end());
    }
    return outputs;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(c10::AnyType::get()));
    for (const auto& part : parts_) {
      futures.push_back(part->getFuture());
    }
    return c10::collectAll(futures)->then([outputs = result()](c10::ivalue::Future&) { return c10::IValue(outputs); },
                                          c10::ListType::create(c10::TensorType::get()));
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

// What a rank sends to itself: gloo has no connection for it.
class Mailbox {
 public:
  using Arrived = std::shared_ptr<std::atomic<bool>>;

  void send(int tag, const at::Tensor& tensor) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = of(wanted_, tag);
    if (found == wanted_.end()) {
      sent_.push_back({tag, tensor.clone(), nullptr});
      return;
    }
    found->tensor.copy_(tensor);
    *found->arrived = true;
    wanted_.erase(found);
  }
  Arrived receive(int tag, const at::Tensor& into) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = of(sent_, tag);
    const auto arrived = std::make_shared<std::atomic<bool>>(found != sent_.end());
    if (*arrived) {
      into.copy_(found->tensor);
      sent_.erase(found);
    } else {
      wanted_.push_back({tag, into, arrived});
    }
    return arrived;
  }

 private:
  struct Letter {
    int tag;
    at::Tensor tensor;
    Arrived arrived;
  };
  static std::vector<Letter>::iterator of(std::vector<Letter>& letters, int tag) {
    return std::find_if(letters.begin(), letters.end(), [tag](const Letter& each) { return each.tag == tag; });
  }

  std::mutex mutex_;
  std::vector<Letter> sent_;
  std::vector<Letter> wanted_;
};

class CollectiveBackend final : public c10d::Backend {
 public:
  CollectiveBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string name)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), name_(std::move(name)) {}

  const std::string getBackendName() const override { return name_; }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
#if FERRY_TORCH >= 209
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
#endif
#if FERRY_TORCH >= 207
  void shutdown() override { inner_->shutdown(); }
  void abort() override { inner_->abort(); }
#endif

  // Each collective in between starts as always.
  void startCoalescing() override { coalescing_ = true; }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    coalescing_ = false;
    return c10::make_intrusive<JoinedWork>(getRank(), std::exchange(started_, {}));
  }

  c10::intrusive_ptr<c10d::Work> broadcast(TensorList& tensors, const c10d::BroadcastOptions& o) override {
    auto lent = in_bytes(lend("broadcast", tensors));
    return hand(c10d::OpType::BROADCAST, gloo()->broadcast(lent, o), tensors);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(TensorList& tensors, const c10d::AllreduceOptions& o) override {
    auto lent = lend("allreduce", tensors);
    if (o.reduceOp == c10d::ReduceOp::AVG) {  // gloo has no average: scale, then add up
      average(lent);
      auto summed = o;
      summed.reduceOp = c10d::ReduceOp::SUM;
      return hand(c10d::OpType::ALLREDUCE, gloo()->allreduce(lent, summed), tensors);
    }
    return hand(c10d::OpType::ALLREDUCE, gloo()->allreduce(lent, o), tensors);
  }
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(TensorList& tensors,
                                                     const c10d::AllreduceCoalescedOptions& o) override {
    auto lent = lend("allreduce_coalesced", tensors);
    return hand(c10d::OpType::ALLREDUCE_COALESCED, gloo()->allreduce_coalesced(lent, o), tensors);
  }
  c10::intrusive_ptr<c10d::Work> reduce(TensorList& tensors, const c10d::ReduceOptions& o) override {
    auto lent = lend("reduce", tensors);
    if (o.reduceOp == c10d::ReduceOp::AVG) {
      average(lent);
      auto summed = o;
      summed.reduceOp = c10d::ReduceOp::SUM;
      return hand(c10d::OpType::REDUCE, gloo()->reduce(lent, summed), tensors);
    }
    return hand(c10d::OpType::REDUCE, gloo()->reduce(lent, o), tensors);
  }
  c10::intrusive_ptr<c10d::Work> allgather(TensorLists& outputs, TensorList& inputs,
                                           const c10d::AllgatherOptions& o) override {
    auto in = in_bytes(lend("allgather", inputs));
    auto out = in_bytes(lend_lists(outputs));
    if (in.size() == 1 && out.size() == 1 && uneven(out[0])) {
      return hand(c10d::OpType::ALLGATHER, gather_unevenly(out[0], in[0]), flat(outputs));
    }
    return hand(c10d::OpType::ALLGATHER, gloo()->allgather(out, in, o), flat(outputs));
  }
  // Gloo splits a buffer along its first dimension, a card's library does not care for the shape.
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& o) override {
    auto out = in_bytes(lend_flat("_allgather_base", output));
    auto in = in_bytes(lend_flat("", input));
    return hand(c10d::OpType::_ALLGATHER_BASE, gloo()->_allgather_base(out, in, o), {output});
  }
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                                                 const c10d::AllgatherOptions& o) override {
    auto out = in_bytes(lend_all_flat("allgather_into_tensor_coalesced", outputs));
    auto in = in_bytes(lend_all_flat("", inputs));
    return hand(c10d::OpType::COALESCED, gloo()->allgather_into_tensor_coalesced(out, in, o), outputs);
  }
  c10::intrusive_ptr<c10d::Work> gather(TensorLists& outputs, TensorList& inputs,
                                        const c10d::GatherOptions& o) override {
    auto in = in_bytes(lend("gather", inputs));
    auto out = in_bytes(lend_lists(outputs));
    return hand(c10d::OpType::GATHER, gloo()->gather(out, in, o), flat(outputs));
  }
  c10::intrusive_ptr<c10d::Work> scatter(TensorList& outputs, TensorLists& inputs,
                                         const c10d::ScatterOptions& o) override {
    auto out = in_bytes(lend("scatter", outputs));
    auto in = in_bytes(lend_lists(inputs));
    return hand(c10d::OpType::SCATTER, gloo()->scatter(out, in, o), outputs);
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter(TensorList& outputs, TensorLists& inputs,
                                                const c10d::ReduceScatterOptions& o) override {
    auto out = lend("reduce_scatter", outputs);
    auto in = lend_lists(inputs);
    auto options = o;
    if (o.reduceOp == c10d::ReduceOp::AVG) {
      for (auto& list : in) {
        for (auto& each : list) {
          each = each / getSize();
        }
      }
      options.reduceOp = c10d::ReduceOp::SUM;
    }
    if (in.size() == 1 && out.size() == 1 && uneven(in[0])) {
      scatter_unevenly(out[0], in[0], options.reduceOp);
      return c10::make_intrusive<Finished>(getRank(), c10d::OpType::REDUCE_SCATTER, outputs);
    }
    return hand(c10d::OpType::REDUCE_SCATTER, gloo()->reduce_scatter(out, in, options), outputs);
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& o) override {
    auto out = lend_flat("_reduce_scatter_base", output);
    auto in = lend_flat("", input);
    if (o.reduceOp == c10d::ReduceOp::AVG) {
      in = in / getSize();
      auto summed = o;
      summed.reduceOp = c10d::ReduceOp::SUM;
      return hand(c10d::OpType::_REDUCE_SCATTER_BASE, gloo()->_reduce_scatter_base(out, in, summed), {output});
    }
    return hand(c10d::OpType::_REDUCE_SCATTER_BASE, gloo()->_reduce_scatter_base(out, in, o), {output});
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                                                 const c10d::ReduceScatterOptions& o) override {
    auto out = lend_all_flat("reduce_scatter_tensor_coalesced", outputs);
    auto in = lend_all_flat("", inputs);
#if FERRY_TORCH >= 212
    constexpr auto kind = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
    constexpr auto kind = c10d::OpType::COALESCED;  // as ProcessGroupNCCL has it there
#endif
    return hand(kind, gloo()->reduce_scatter_tensor_coalesced(out, in, o), outputs);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& o) override {
    auto out = in_bytes(lend_one("alltoall_base", output));
    auto in = in_bytes(lend_one("", input));
    return hand(c10d::OpType::ALLTOALL_BASE, gloo()->alltoall_base(out, in, output_sizes, input_sizes, o), {output});
  }
  c10::intrusive_ptr<c10d::Work> alltoall(TensorList& outputs, TensorList& inputs,
                                          const c10d::AllToAllOptions&) override {
    // Gloo has only the form with one buffer.
    auto in = in_bytes(lend("alltoall", inputs));
    auto out = in_bytes(lend("", outputs));
    std::vector<int64_t> in_sizes;
    std::vector<int64_t> out_sizes;
    TensorList in_flat;
    int64_t total = 0;
    for (auto& each : in) {
      in_sizes.push_back(each.numel());
      in_flat.push_back(each.reshape({-1}));
    }
    for (auto& each : out) {
      out_sizes.push_back(each.numel());
      total += each.numel();
    }
    auto sent = at::cat(in_flat);
    auto received = at::empty({total}, sent.options());
    const auto sizes = out_sizes;  // gloo takes the vectors away
    gloo()->alltoall_base(received, sent, out_sizes, in_sizes)->wait();
    const auto parts = received.split_with_sizes(sizes);
    for (size_t i = 0; i < out.size(); i++) {
      out[i].copy_(parts[i].view(out[i].sizes()));
    }
    return c10::make_intrusive<Finished>(getRank(), c10d::OpType::ALLTOALL, outputs);
  }
  c10::intrusive_ptr<c10d::Work> send(TensorList& tensors, int to, int tag) override {
    auto lent = in_bytes(lend("send", tensors));
    if (to == getRank()) {
      own_.send(tag, lent.at(0));
      return c10::make_intrusive<Finished>(getRank(), c10d::OpType::SEND, tensors);
    }
    return hand(c10d::OpType::SEND, gloo()->send(lent, to, tag), tensors);
  }
  c10::intrusive_ptr<c10d::Work> recv(TensorList& tensors, int from, int tag) override {
    auto lent = in_bytes(lend("recv", tensors));
    if (from == getRank()) {
      return c10::make_intrusive<Finished>(getRank(), c10d::OpType::RECV, tensors, own_.receive(tag, lent.at(0)));
    }
    return hand(c10d::OpType::RECV, gloo()->recv(lent, from, tag), tensors);
  }
  c10::intrusive_ptr<c10d::Work> recvAnysource(TensorList& tensors, int tag) override {
    auto lent = in_bytes(lend("recvAnysource", tensors));
    return hand(c10d::OpType::RECVANYSOURCE, gloo()->recvAnysource(lent, tag), tensors);
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& o) override {
    count("barrier", 0);
    return gloo()->barrier(o);
  }

 private:
  // Gloo, without its events for the profiler: it ends them after it has completed the future, so a program that waits
  // for the future and stops its profiler would free an event that gloo's thread still writes to. torch's own event of
  // the collective, `c10d::allreduce_`, is there.
  class Unrecorded {
   public:
    explicit Unrecorded(c10d::Backend& gloo) : gloo_(gloo) {}
    c10d::Backend* operator->() const { return &gloo_; }

   private:
    c10d::Backend& gloo_;
    at::DisableRecordFunctionGuard guard_;
  };
  Unrecorded gloo() const { return Unrecorded(*inner_); }

  class Finished final : public c10d::Work {
   public:
    Finished(int rank, c10d::OpType type, TensorList outputs, Mailbox::Arrived arrived = nullptr)
        : c10d::Work(rank, type), outputs_(std::move(outputs)), arrived_(std::move(arrived)) {}
    bool isCompleted() override { return arrived_ == nullptr || *arrived_; }
    bool isSuccess() const override { return arrived_ == nullptr || *arrived_; }
    void synchronize() override {
      TORCH_CHECK(isCompleted(), "a rank waits for a tensor from itself that it has not sent");
      c10d::Work::synchronize();
    }
    bool wait(std::chrono::milliseconds) override {
      synchronize();
      return true;
    }
    std::vector<at::Tensor> result() override { return outputs_; }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
      auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      future->markCompleted(c10::IValue(outputs_));
      return future;
    }

   private:
    TensorList outputs_;
    Mailbox::Arrived arrived_;
  };

  // Counted, and open to faults (`op=c10d.allreduce`).
  void count(const std::string& operation, int64_t bytes) {
    if (operation.empty()) {
      return;
    }
    emit(Event::kCollective, operation, name_, bytes);
    Operators::instance().collective("c10d::" + operation);
  }

  void refuse_dtype(const std::string& operation, c10::ScalarType dtype) const {
    const auto found = refusals().find({operation, dtype});
    if (C10_UNLIKELY(found != refusals().end())) {
      emit_refusal(Event::kMissingDtype, c10::toString(dtype), name_ + " " + operation);
      TORCH_CHECK(false, found->second, " [rehearsal]");
    }
  }

  at::Tensor borrow(const at::Tensor& tensor) const {
    if (C10_UNLIKELY(!on_device(tensor))) {
      emit_refusal(Event::kMixedDevices, name_, c10::str("a tensor on ", tensor.device()));
      TORCH_CHECK(false, "No backend type associated with device type ", tensor.device().type(), ": ", name_,
                  " takes tensors on ", settings().name, " only");
    }
    TORCH_CHECK(tensor.device().index() < settings().devices, "invalid device ordinal");
    stream_.reads(tensor);
    return host_tensor(tensor);
  }

  TensorList lend(const std::string& operation, const TensorList& tensors) {
    TensorList lent;
    int64_t bytes = 0;
    for (const auto& each : tensors) {
      lent.push_back(borrow(each));
      refuse_dtype(operation, each.scalar_type());
      bytes += static_cast<int64_t>(each.nbytes());
    }
    count(operation, bytes);
    return lent;
  }
  TensorLists lend_lists(const TensorLists& lists) {
    TensorLists lent;
    for (const auto& each : lists) {
      lent.push_back(lend("", each));
    }
    return lent;
  }
  at::Tensor lend_one(const std::string& operation, const at::Tensor& tensor) {
    auto lent = borrow(tensor);
    refuse_dtype(operation, tensor.scalar_type());
    count(operation, static_cast<int64_t>(tensor.nbytes()));
    return lent;
  }
  at::Tensor lend_flat(const std::string& operation, const at::Tensor& tensor) {
    auto lent = lend_one(operation, tensor);
    TORCH_CHECK(lent.is_contiguous(), "Tensors must be contiguous");
    return lent.view({-1});
  }
  TensorList lend_all_flat(const std::string& operation, const TensorList& tensors) {
    TensorList lent;
    for (const auto& each : tensors) {
      lent.push_back(lend_flat(lent.empty() ? operation : "", each));
    }
    return lent;
  }
  // Gloo counts in few types. Where values are only moved, it moves their bytes, one more dimension of them.
  static at::Tensor in_bytes(at::Tensor lent) {
    switch (lent.scalar_type()) {
      case at::kFloat:
      case at::kDouble:
      case at::kHalf:
      case at::kBFloat16:
      case at::kChar:
      case at::kByte:
      case at::kBool:
      case at::kInt:
      case at::kLong:
        return lent;
      default:
        return lent.unsqueeze(-1).view(at::kByte);
    }
  }
  static TensorList in_bytes(TensorList lent) {
    std::transform(lent.begin(), lent.end(), lent.begin(), [](const at::Tensor& each) { return in_bytes(each); });
    return lent;
  }
  static TensorLists in_bytes(TensorLists lent) {
    for (auto& each : lent) {
      each = in_bytes(std::move(each));
    }
    return lent;
  }
  // Gloo wants tensors of one size, a card's library does not.
  static bool uneven(const TensorList& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const at::Tensor& each) { return each.sizes() != tensors[0].sizes(); });
  }
  c10::intrusive_ptr<c10d::Work> gather_unevenly(const TensorList& out, const at::Tensor& in) {
    out.at(static_cast<size_t>(getRank())).copy_(in);
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (size_t i = 0; i < out.size(); i++) {
      TensorList one{out[i]};
      c10d::BroadcastOptions options;
      options.rootRank = static_cast<int64_t>(i);
      works.push_back(gloo()->broadcast(one, options));
    }
    return c10::make_intrusive<JoinedWork>(getRank(), std::move(works));
  }
  void scatter_unevenly(const at::Tensor& out, const TensorList& in, const c10d::ReduceOp& operation) {
    for (size_t i = 0; i < in.size(); i++) {
      TensorList one{in[i].clone()};
      c10d::ReduceOptions options;
      options.reduceOp = operation;
      options.rootRank = static_cast<int64_t>(i);
      gloo()->reduce(one, options)->wait();
      if (static_cast<int>(i) == getRank()) {
        out.copy_(one[0]);
      }
    }
  }
  void average(TensorList& tensors) const {
    for (auto& each : tensors) {
      each.div_(getSize());
    }
  }
  static TensorList flat(const TensorLists& lists) {
    TensorList tensors;
    for (const auto& each : lists) {
      tensors.insert(tensors.end(), each.begin(), each.end());
    }
    return tensors;
  }
  c10::intrusive_ptr<c10d::Work> hand(c10d::OpType type, c10::intrusive_ptr<c10d::Work> work, TensorList outputs) {
    auto handed = c10::make_intrusive<CollectiveWork>(getRank(), type, std::move(work), std::move(outputs), stream_);
    if (coalescing_) {
      started_.push_back(handed);
    }
    return handed;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::string name_;
  Mailbox own_;
  LibraryStream stream_;
  bool coalescing_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> started_;
};

// Give the group a backend for the device that lends to its gloo. Python reads it back with `_get_backend`.
inline void add_collectives(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& name) {
  auto inner = group->getBackend(c10::DeviceType::CPU);
  optional<c10::intrusive_ptr<c10d::Backend>> made = c10::make_intrusive<CollectiveBackend>(inner, name);
  for (const auto type : {settings().type, c10::DeviceType::PrivateUse1}) {
    group->setBackend(type, c10d::ProcessGroup::BackendType::CUSTOM, made);
  }
}

}  // namespace ferry
