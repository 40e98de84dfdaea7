#include "sim/strategies/dp/chunks.hpp"

namespace stepcast::dp {

std::vector<Chunk> broadcast_chunks(std::span<const Bytes> tensors, Bytes limit) {
  std::vector<Chunk> chunks;
  Chunk open;
  for (const Bytes bytes : tensors) {
    ++open.count;
    open.bytes += bytes;
    if (open.bytes < limit) continue;
    chunks.push_back(open);
    open = {open.first + open.count, 0, 0};
  }
  if (open.count > 0) chunks.push_back(open);
  return chunks;
}

std::vector<Chunk> reduce_chunks(std::span<const Bytes> tensors, Bytes limit) {
  std::vector<Chunk> chunks;
  Chunk open;
  for (const Bytes bytes : tensors) {
    if (open.count > 0 && open.bytes + bytes > limit) {
      chunks.push_back(open);
      open = {open.first + open.count, 0, 0};
    }
    ++open.count;
    open.bytes += bytes;
  }
  if (open.count > 0) chunks.push_back(open);
  return chunks;
}

}  // namespace stepcast::dp
