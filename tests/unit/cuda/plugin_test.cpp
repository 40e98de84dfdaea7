// Libraries that are not there, are something else, or lack a function: said in one line.

#include "runtime/cuda/plugin.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "runtime/cuda/library.hpp"

namespace stepcast::runtime {
namespace {

template <typename F>
std::string said(F&& f) {
  try {
    f();
  } catch (const GpuError& error) {
    return error.what();
  }
  return "";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a library that is not found is named with where it was looked for") {
  const std::string text = said([] {
    Library::open({"libnot-there.so.2", "libnot-there.so"}, "STEPCAST_NOT_THERE");
  });
  CHECK(contains(text, "libnot-there.so.2, libnot-there.so cannot be opened ("));
  CHECK(contains(text, "LD_LIBRARY_PATH"));
  CHECK(contains(text, "STEPCAST_NOT_THERE"));
}

TEST_CASE("a path that a variable names is tried alone") {
  setenv("STEPCAST_NOT_THERE", "/nowhere/libx.so", 1);
  const std::string text = said([] { Library::open({"libm.so.6"}, "STEPCAST_NOT_THERE"); });
  CHECK(text.starts_with("/nowhere/libx.so cannot be opened ("));
  CHECK(contains(text, "named by STEPCAST_NOT_THERE"));
}

TEST_CASE("a function that a library lacks is named") {
  const Library math = Library::open({"libm.so.6"}, nullptr);
  double (*cosine)(double) = nullptr;
  math.get("cos", cosine);
  CHECK(cosine(0) == 1);
  CHECK(said([&] { math.get("ncclCommSplit", cosine); }) ==
        "libm.so.6 has no ncclCommSplit: it is too old, or another library");
  CHECK(math.find("ncclCommSplit") == nullptr);
}

TEST_CASE("no plugin, or a file that is none") {
  setenv("STEPCAST_CUDA_PLUGIN", "/nowhere", 1);
  CHECK(contains(said([] { open_gpus(); }), "no CUDA plugin: /nowhere is not there"));
  setenv("STEPCAST_CUDA_PLUGIN", "/dev/null", 1);
  CHECK(contains(said([] { open_gpus(); }), "/dev/null cannot be opened"));
}

}  // namespace
}  // namespace stepcast::runtime
