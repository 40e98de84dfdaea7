#include "sim/forecast/resolve_loader.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

void resolve_loader(const Scenario& s, Resolved& r) {
  const char* said = s.loader_workers    ? "loader_workers"
                     : s.loader_prefetch ? "loader_prefetch"
                     : s.sample_bytes    ? "sample_bytes"
                                         : nullptr;
  if (said == nullptr && !s.loader_sample_ms && !s.storage_gbps) return;
  if (!s.loader_sample_ms && !s.storage_gbps) {
    throw InputError(s.where(said),
                     "loading takes no time without loader_sample_ms or storage_gbps; accepted: "
                     "one of them, or both");
  }
  LoaderOptions& options = r.step.loader;
  options.modelled = true;
  options.workers = static_cast<int>(s.loader_workers.value_or(0));
  if (s.loader_prefetch && options.workers == 0) {
    throw InputError(s.where("loader_prefetch"),
                     "needs loader_workers of 1 or more: without "
                     "workers nothing is read ahead");
  }
  options.prefetch = static_cast<int>(s.loader_prefetch.value_or(options.prefetch));
  if (s.sample_bytes && !s.storage_gbps) {
    throw InputError(s.where("sample_bytes"), "needs storage_gbps, for bytes to take time");
  }
  // Tokens are int64; images are stored as they are, 3 bytes a pixel.
  const Workload& w = r.step.workload;
  const bool images = takes_images(r.step.model.architecture.family);
  options.sample_bytes =
      s.sample_bytes.value_or(images ? 3 * w.image_size * w.image_size : 8 * w.seq_len);
  r.loader.workers = options.workers;
  r.loader.sample_bytes = options.sample_bytes;
  r.loader.sample_seconds = s.loader_sample_ms.value_or(0) * 1e-3;
  const int sharers = std::min(r.cluster.gpus_per_node, r.cluster.world_size);
  r.loader.bytes_per_second = s.storage_gbps.value_or(0) * 1e9 / sharers;
  if (options.workers == 0) {
    r.notes.push_back(
        "no loader_workers: the training process reads each batch itself, as with "
        "PyTorch's num_workers = 0");
  }
}

}  // namespace stepcast
