// The CUDA plugin without CUDA: the program's commands on GPUs that are not there.
//
//   STEPCAST_CUDA_PLUGIN=.../libstepcast_fake_cuda.so STEPCAST_FAKE_GPUS=2 stepcast gpu-check
//
// A process has a cluster of its own, so processes never meet in NCCL; times mean nothing.

#include <cstdlib>
#include <memory>

#include "tests/unit/cuda/fake_gpu.hpp"

extern "C" __attribute__((visibility("default"))) stepcast::runtime::GpuTables*
stepcast_open_gpu_tables(int abi, const stepcast::runtime::PluginOptions*, std::string* why) {
  if (abi != stepcast::runtime::plugin_abi) {
    *why = "the fake belongs to another version of the program";
    return nullptr;
  }
  const char* gpus = std::getenv("STEPCAST_FAKE_GPUS");
  static stepcast::testing::FakeCluster cluster({gpus == nullptr ? 1 : std::atoi(gpus)});
  cluster.only_process = true;
  cluster.largest_moved = stepcast::mib;
  auto tables = std::make_unique<stepcast::runtime::GpuTables>(cluster.process(0));
  tables->software = {"driver for a fake", "NCCL fake"};
  return tables.release();
}
