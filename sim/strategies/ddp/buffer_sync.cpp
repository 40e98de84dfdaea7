#include "sim/strategies/ddp/buffer_sync.hpp"

#include <map>

#include "sim/strategies/ddp/reducer.hpp"

namespace stepcast::ddp {

ModuleBuffers::ModuleBuffers(ScheduleBuilder& builder, const Model& model) {
  std::map<Dtype, Bytes> bytes_of;
  for (const ModuleBuffer& buffer : model.buffers) {
    const Bytes bytes = buffer.elements() * bytes_per_element(buffer.dtype);
    tensors_.push_back({bytes, buffer.dtype, false});
    views_.push_back({-1, bytes_of[buffer.dtype], bytes});
    bytes_of[buffer.dtype] += bytes;
  }
  for (const auto& [dtype, bytes] : bytes_of) {
    const BufferIndex whole = builder.persistent("module_buffers." + std::string(to_string(dtype)),
                                                 BufferKind::other, dtype, bytes);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].dtype == dtype) views_[i].buffer = whole;
    }
  }
}

bool syncs_buffers(const TrainingStep& step, int micro_batch) {
  if (!step.strategy.broadcast_buffers || step.model.buffers.empty()) return false;
  return micro_batch == 0 || reduces(step, micro_batch - 1);
}

}  // namespace stepcast::ddp
