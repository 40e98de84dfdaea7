#include "sim/strategies/ddp/buckets.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace stepcast::ddp {

std::vector<Bucket> assign(std::span<const Tensor> tensors, std::span<const int> order,
                           const Limits& limits) {
  STEPCAST_ASSERT(!limits.empty(), "bucket assignment without a limit");
  struct Open {  // one a dtype: all tensors live on one device here
    Dtype dtype;
    Bucket bucket;
    std::size_t limit = 0;
  };
  std::vector<Open> open;
  std::vector<Bucket> closed;
  for (const int index : order) {
    const Tensor& tensor = tensors[static_cast<std::size_t>(index)];
    if (tensor.sparse) {
      closed.push_back({{index}, tensor.bytes, tensor.dtype});
      continue;
    }
    auto mine = std::find_if(open.begin(), open.end(),
                             [&](const Open& o) { return o.dtype == tensor.dtype; });
    if (mine == open.end()) {
      open.push_back({tensor.dtype, {{}, 0, tensor.dtype}, 0});
      mine = open.end() - 1;
    }
    mine->bucket.tensors.push_back(index);
    mine->bucket.bytes += tensor.bytes;
    if (mine->bucket.bytes >= limits[mine->limit]) {
      closed.push_back(std::move(mine->bucket));
      mine->bucket = {{}, 0, tensor.dtype};
      mine->limit = std::min(mine->limit + 1, limits.size() - 1);
    }
  }
  for (Open& leftover : open) {
    if (!leftover.bucket.tensors.empty()) closed.push_back(std::move(leftover.bucket));
  }
  return closed;
}

std::vector<Bucket> construction_buckets(std::span<const Tensor> tensors, const Limits& limits) {
  std::vector<int> definition(tensors.size());
  std::iota(definition.begin(), definition.end(), 0);
  std::vector<Bucket> buckets = assign(tensors, definition, limits);
  // In definition order a bucket's first tensor is its smallest index.
  std::sort(buckets.begin(), buckets.end(),
            [](const Bucket& a, const Bucket& b) { return a.tensors.front() < b.tensors.front(); });
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

std::vector<Bucket> rebuilt_buckets(std::span<const Tensor> tensors,
                                    std::span<const int> ready_order, const Limits& limits,
                                    bool small_last) {
  if (!small_last) return assign(tensors, ready_order, limits);
  const std::vector<int> backwards(ready_order.rbegin(), ready_order.rend());
  std::vector<Bucket> buckets = assign(tensors, backwards, limits);
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

std::vector<Bucket> buckets_of_iteration(Mode mode, int iteration, std::span<const Tensor> tensors,
                                         std::span<const int> ready_order, const Limits& limits,
                                         bool small_last) {
  const int rebuilt_from = mode == Mode::static_graph ? 2 : 1;
  if (mode == Mode::find_unused || mode == Mode::pytorch_1_4) {
    return construction_buckets(tensors, limits);
  }
  if (iteration < rebuilt_from) return construction_buckets(tensors, {no_limit});
  return rebuilt_buckets(tensors, ready_order, limits, small_last);
}

namespace {

Bytes bytes_of_mib(double amount) {
  return static_cast<Bytes>(std::llround(amount * static_cast<double>(mib)));
}

}  // namespace

Limits limits_from_list(std::span<const double> caps_mib) {
  Limits limits;
  for (const double cap : caps_mib) limits.push_back(bytes_of_mib(cap));
  return limits;
}

Limits limits_for(double cap_mib, bool explicit_cap, bool older_rule) {
  const Bytes cap = bytes_of_mib(cap_mib);
  if (explicit_cap && !older_rule) return {cap, cap};
  return {default_first_bucket, cap};
}

}  // namespace stepcast::ddp
