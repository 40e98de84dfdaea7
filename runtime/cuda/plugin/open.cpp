// The plugin's one door: opens what there is and says why the rest is not.

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "runtime/cuda/plugin.hpp"
#include "runtime/cuda/plugin/check.hpp"
#include "runtime/cuda/plugin/cuda_kernels.hpp"
#include "runtime/cuda/plugin/cuda_math.hpp"
#include "runtime/cuda/plugin/device.hpp"
#include "runtime/cuda/plugin/nccl.hpp"

namespace stepcast::cuda {
namespace {

using runtime::GpuError;
using runtime::GpuTables;
using runtime::PluginOptions;

std::string words(int version) {  // 13000
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

struct Tables {
  CudaGpu gpu;
  std::unique_ptr<runtime::GpuCollectives> nccl;
  std::unique_ptr<runtime::GpuMath> math;
  std::unique_ptr<runtime::GpuKernels> kernels;
};

// The driver, and a GPU that this plugin has code for.
std::string look_for_gpus() {
  runtime::Library::open({"libcuda.so.1"}, nullptr);  // its message is the clearer one
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaErrorInsufficientDriver) {
    throw GpuError("the driver is one for CUDA " + words(driver) + ", this build needs CUDA " +
                   words(CUDART_VERSION / 1000 * 1000) +
                   " or later: a newer driver, or a build with an older CUDA");
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && devices == 0)) {
    throw GpuError("there is a driver but no GPU (or CUDA_VISIBLE_DEVICES hides them)");
  }
  check(code, "cudaGetDeviceCount");
  return "driver for CUDA " + words(driver);
}

std::unique_ptr<GpuTables> open(const PluginOptions& options) {
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  // A kernel that is loaded at its first launch may wait for the device, and so for a collective
  // that waits for a peer whose kernels are still to be loaded.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  std::string driver;
  try {
    driver = look_for_gpus();
  } catch (const GpuError& no) {
    throw GpuError(std::string("no GPU: ") + no.what());
  }
  auto all = std::make_shared<Tables>();
  auto tables = std::make_unique<GpuTables>();
  tables->gpu = &all->gpu;
  tables->software = {driver, "CUDA runtime " + words(CUDART_VERSION)};
  try {
    all->nccl = open_nccl();
    tables->collectives = all->nccl.get();
    const int v = all->nccl->version();
    tables->software.push_back("NCCL " + std::to_string(v / 10000) + "." +
                               std::to_string(v / 100 % 100) + "." + std::to_string(v % 100));
  } catch (const GpuError& no) {
    tables->no_collectives = std::string("no NCCL: ") + no.what();
  }
  try {
    auto cublas = std::make_shared<Cublas>();
    tables->software.push_back("cuBLAS " + cublas->version());
    all->math = make_math(cublas);
    tables->math = all->math.get();
  } catch (const GpuError& no) {
    tables->no_math = std::string("no cuBLAS: ") + no.what();
  }
  std::shared_ptr<Cudnn> cudnn;
  std::string no_cudnn;
  try {
    cudnn = std::make_shared<Cudnn>();
    tables->software.push_back("cuDNN " + cudnn->version());
  } catch (const GpuError& no) {
    no_cudnn = std::string("no cuDNN: ") + no.what();
  }
  try {
    all->kernels = make_kernels(std::make_shared<CublasLt>(), cudnn, no_cudnn);
    tables->kernels = all->kernels.get();
  } catch (const GpuError& no) {
    tables->no_kernels = std::string("no cuBLASLt: ") + no.what();
  }
  tables->keeps = all;
  return tables;
}

}  // namespace
}  // namespace stepcast::cuda

// Null, and in `why` the reason, where there is nothing to run on.
extern "C" __attribute__((visibility("default"))) stepcast::runtime::GpuTables*
stepcast_open_gpu_tables(int abi, const stepcast::runtime::PluginOptions* options,
                         std::string* why) {
  try {
    if (abi != stepcast::runtime::plugin_abi) {
      *why = "the CUDA plugin belongs to another version of the program";
      return nullptr;
    }
    return stepcast::cuda::open(*options).release();
  } catch (const std::exception& error) {
    *why = error.what();
    return nullptr;
  }
}
