#pragma once
// Host memory at load: what a node's ranks hold of the model in main memory before it is on the
// GPUs.
//
//   every   each rank builds the model and reads the whole checkpoint (torch.load in every process)
//   rank0   rank 0 of the job reads it and broadcasts (sync_module_states); the others build theirs
//           on the meta device or straight on the GPU
//   meta    every rank builds on the meta device and reads the part that it keeps (a sharded
//           checkpoint, torch.distributed.checkpoint)
//
// Example: 70e9 parameters in fp32 are 280 GB; eight ranks that read all of it hold 2.24 TB a node,
// rank 0 alone 280 GB, eight of 64 ranks that read their 64th 35 GB. A file that is mapped (mmap)
// or read tensor by tensor needs less; the page cache is not counted. Tested by
// tests/unit/memory/host_load_test.cpp.

#include <string>
#include <vector>

#include "base/units.hpp"

namespace stepcast {

enum class LoadMode : std::uint8_t { every, rank0, meta };

struct HostLoad {
  LoadMode mode = LoadMode::every;
  Bytes reading_rank = 0;  // a rank that reads
  Bytes first_node = 0;    // the node of rank 0
  Bytes other_node = 0;    // every other
};

struct HostLoadQuestion {
  std::int64_t parameters = 0;
  Bytes bytes_per_parameter = 4;  // as they are read
  std::int64_t ranks_per_node = 1;
  std::int64_t shards = 1;  // over how many ranks one copy is cut (meta); 1: not at all
};

HostLoad host_bytes_at_load(const HostLoadQuestion& question, LoadMode mode);
std::vector<HostLoad> host_bytes_at_load(const HostLoadQuestion& question);  // all three

std::string_view to_string(LoadMode mode);
LoadMode parse_load_mode(const std::string& name);  // InputError lists the names

}  // namespace stepcast
