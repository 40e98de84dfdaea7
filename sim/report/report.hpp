#pragma once
// Everything that a forecast says about itself: the one structure that the text page, the JSON
// document and the tests read. sim/forecast fills it.

#include <optional>
#include <string>
#include <vector>

#include "sim/report/perturbed.hpp"
#include "sim/report/summary.hpp"

namespace stepcast {

struct MemoryRow {
  std::string kind;  // BufferKind by name, or "cuda_context", "nccl", ...
  Bytes bytes = 0;   // at the peak
};

// What PyTorch's caching allocator keeps reserved for the tensors (sim/memory/replay.hpp); the CUDA
// context and NCCL's buffers come on top.
struct ReservedMemory {
  Bytes peak = 0;
  std::string moment;         // the op that reached it
  Bytes allocated = 0;        // of it: tensors,
  Bytes waiting = 0;          // freed, but a stream that used them has not passed,
  Bytes cached = 0;           // and free blocks
  Bytes peak_active = 0;      // tensors and waiting, at their own peak
  int retries = 0;            // a step: the device was full, the cache was freed
  Seconds retry_wait = 0;     // by how much they make the step longer, in the step time
  Seconds retried_step = 0;   // where the step leaves them out: what it takes with all of them
  std::string out_of_memory;  // who asked for what, and what was held; empty: nobody went without
};

struct RoleMemory {
  std::string role;
  int ranks = 0;
  Bytes peak = 0;                               // sum of the rows
  std::vector<MemoryRow> rows;                  // at the peak, largest first
  std::string peak_moment;                      // "backward.compute.layers.31"
  Bytes persistent = 0;                         // between steps
  std::optional<ReservedMemory> reserved = {};  // none: the step was not timed
};

struct Report {
  // ---- what was forecast
  std::string model;
  std::string model_source;
  std::int64_t parameters = 0;
  bool images = false;          // a sample is an image, not a sequence of tokens
  std::int64_t seq_len = 0;     // 0 for images
  std::int64_t image_size = 0;  // pixels a side; 0 for text
  // How a resnet's tensors lie; none: the model has no convolutions.
  std::optional<bool> channels_last = {};
  std::int64_t micro_batch = 0;
  int accumulation = 1;
  std::string checkpointing;
  std::string strategy;
  std::string precision;
  std::string fp8;  // the recipe of linear layers, "te-delayed"; empty: none
  Mesh mesh;
  std::string machine;       // "dgx-h100"
  std::string machine_name;  // "NVIDIA DGX H100"
  std::string gpu;           // "NVIDIA H100 SXM5 80GB"
  int nodes = 1;
  int gpus_per_node = 1;
  int gpus = 1;
  std::string network;  // "rail_optimised infiniband, 50 GB/s a NIC"
  std::string engine;
  std::string profile;
  std::string nccl_version;
  std::vector<std::string> corrected_classes;  // of networks; of none: NCCL's own times
  std::string step;                            // "steady", "first"

  // ---- speed
  Seconds step_time = 0;
  double samples_per_step = 0;  // sequences or images
  double samples_per_second = 0;
  double samples_per_second_per_gpu = 0;
  double tokens_per_step = 0;  // 0 for images, as all that counts tokens
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  double tflops_per_gpu = 0;           // model FLOPs
  double hardware_tflops_per_gpu = 0;  // with recomputation
  double mfu = 0;
  double hfu = 0;
  double peak_tflops = 0;  // dense
  std::string peak_dtype;  // "bf16"
  bool peak_is_fallback = false;
  bool tied_embeddings = false;  // N counts the embedding once
  std::int64_t experts = 0;      // 0: dense
  double flops_per_sample = 0;
  double flops_per_token = 0;

  TimeSplit split;
  std::vector<CollectiveRow> collectives;
  int ops_per_step = 0;

  // ---- memory
  Bytes capacity = 0;
  std::vector<RoleMemory> memory;
  bool fits = true;
  std::string smallest_change;  // when it does not fit; may be empty when none was found

  std::optional<PerturbedStep> perturbed;  // where ranks are slow, late or missing

  // ---- how far to trust it
  std::vector<std::string> notes;
};

// Bytes a GPU sends in one step, all calls of a row together.
double bytes_sent_intra(const CollectiveRow& row);
double bytes_sent_inter(const CollectiveRow& row);

// What the allocator may reserve: all but the CUDA context and NCCL's buffers.
Bytes room_for_blocks(const RoleMemory& role, Bytes capacity);

std::string role_words(const RoleMemory& role);  // "rest (7 GPUs)"
// What does not fit, where, and how much other roles have free: "does not fit: 25.1 GiB needed on
// gpu0 (1 GPU), NVIDIA TITAN RTX 24GB has 23.6 GiB, while rest (1 GPU) has 9.0 GiB free".
std::string shortage(const Report& report);

struct TextOptions {
  bool unicode = false;  // bars and box characters
  int width = 96;
};
std::string to_text(const Report& report, const TextOptions& options = {});

// Schema "stepcast.forecast/1", docs/json-schema.md. Two-space indentation, keys in a fixed order.
std::string to_json(const Report& report);

// ", NHWC" or ", NCHW" for a resnet, else nothing.
std::string layout_words(const Report& report);

}  // namespace stepcast
