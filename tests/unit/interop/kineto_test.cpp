// Kineto traces as they are found: old and new, whole and broken.
#include "sim/interop/kineto.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"

using namespace stepcast;

namespace {

class TempFile {
 public:
  explicit TempFile(const std::string& text, bool packed = false, std::size_t cut = 0) {
    static int number = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("stepcast-kineto-" + std::to_string(getpid()) + "-" + std::to_string(number++)))
                .string();
    if (packed) {
      gzFile out = gzopen(path_.c_str(), "wb");
      gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
      gzclose(out);
      if (cut > 0) std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - cut);
    } else {
      std::ofstream(path_, std::ios::binary) << text;
    }
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Newer: float times, shapes, the launch by correlation only, what was reduced on the CPU op.
const std::string newer = R"({
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480, "computeMajor": 9,
     "computeMinor": 0, "numSms": 132, "odd": [1, {"name": "not the device's"}]}
  ],
  "cuda_runtime_version": 12060,
  "distributedInfo": {"backend": "nccl", "rank": 5, "world_size": 8, "nccl_version": "2.28.9",
                      "pg_config": [{"pg_size": 8, "rank": 99, "ranks": [0, 1]}]},
  "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 75, "tid": 155,
     "ts": 6322354308203.646, "dur": 47.445,
     "args": {"External id": 1061, "Concrete Inputs": ["", "", ""],
              "Input type": ["c10::BFloat16", "c10::BFloat16"],
              "Input Strides": [[1, 3072], [768, 1]],
              "Input Dims": [[3072, 16384], [16384, 768]], "Ev Idx": 36}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::_foreach_add_", "ts": 1.5, "dur": 2, "args":
     {"External id": 7, "Input Dims": [[[2873320], [4]], [], [3, 4]], "Input type": ["TensorList"]}},
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 3, "dur": 4, "args":
     {"External id": 3714, "Collective name": "_reduce_scatter_base", "dtype": "BFloat16",
      "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
      "Group size": 8, "In msg nelems": 38633472, "Out msg nelems": 4829184}},
    {"ph": "i", "name": "Iteration Start", "s": "g", "ts": 1},
    {"ph": "X", "cat": "Kernel", "name": "k", "ts": 5, "dur": 744.763, "pid": 0, "tid": 23,
     "args": {"device": 0, "stream": 23, "correlation": 46516, "grid": [24, 1, 2]}}
  ],
  "traceName": "x.json", "displayTimeUnit": "ms"
})";

std::string refusal(const std::string& path) {
  try {
    read_kineto(path, [](const KinetoEvent&) {});
  } catch (const InputError& error) {
    const std::string text = error.what();
    return text.substr(path.size());
  }
  return "accepted";
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

void check_newer(const std::string& path) {
  std::vector<KinetoEvent> events;
  const KinetoInfo info = read_kineto(path, [&](const KinetoEvent& e) { events.push_back(e); });
  REQUIRE(events.size() == 5);
  CHECK(info.events == 5);
  REQUIRE(info.devices.size() == 1);
  CHECK(info.devices[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(info.devices[0].compute_capability == 90);
  CHECK(info.devices[0].sm_count == 132);
  CHECK(info.rank == 5);
  CHECK(info.world_size == 8);
  CHECK(info.nccl_version == "2.28.9");
  CHECK(info.runtime == "12060");

  CHECK(events[0].name == "aten::mm");
  CHECK(events[0].start_us == 6322354308203.646);
  CHECK(events[0].external_id == 1061);
  REQUIRE(events[0].input_dims.size() == 2);
  CHECK(events[0].input_dims[1] == std::vector<std::int64_t>{16384, 768});
  CHECK(events[0].input_types[0] == "c10::BFloat16");
  // A list of tensors and a scalar have no dims; what follows keeps its place.
  REQUIRE(events[1].input_dims.size() == 3);
  CHECK(events[1].input_dims[0].empty());
  CHECK(events[1].input_dims[2] == std::vector<std::int64_t>{3, 4});
  CHECK(events[2].collective == "_reduce_scatter_base");
  CHECK(events[2].in_elements == 38633472);
  CHECK(events[2].group_size == 8);
  CHECK(parse_ranks(events[2].group_ranks) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(events[3].phase == "i");
  CHECK(events[3].external_id == -1);
  CHECK(events[4].category == "kernel");
  CHECK(events[4].duration_us == 744.763);
  CHECK(events[4].stream == 23);
  CHECK(events[4].grid == std::array<std::int64_t, 3>{24, 1, 2});
}

}  // namespace

TEST_CASE("a trace is read event by event, plain or packed") {
  check_newer(TempFile(newer).path());
  check_newer(TempFile(newer, true).path());
}

TEST_CASE(
    "older traces: integer times, no distributedInfo, the kernel's own launch, a bare array") {
  const TempFile file(R"([{"ph": "X", "cat": "kernel", "name": "k", "ts": 1661203462598738,
    "dur": 19, "args": {"External id": 2, "correlation": 9}}])");
  std::vector<KinetoEvent> events;
  const KinetoInfo info =
      read_kineto(file.path(), [&](const KinetoEvent& e) { events.push_back(e); });
  REQUIRE(events.size() == 1);
  CHECK(events[0].start_us == 1661203462598738.0);
  CHECK(events[0].external_id == 2);
  CHECK_FALSE(info.rank);
  CHECK(info.devices.empty());
}

TEST_CASE("keys of a device that stand there twice do not add up, however large they are") {
  const auto capability = [](const std::string& keys) {
    const TempFile file(
        "{\"deviceProperties\": [{" + keys +
        "}], \"traceEvents\": [{\"ph\": \"X\", \"name\": \"k\", \"ts\": 1, \"dur\": 1}]}");
    const KinetoInfo info = read_kineto(file.path(), [](const KinetoEvent&) {});
    REQUIRE(info.devices.size() == 1);
    return info.devices[0].compute_capability;
  };
  CHECK(capability(R"("computeMajor": 8, "computeMinor": 9)") == 89);
  CHECK(capability(R"("computeMinor": 9, "computeMajor": 8)") == 89);
  CHECK(capability(
            R"("computeMajor": 8, "computeMinor": 6, "computeMajor": 9, "computeMinor": 0)") == 90);
  const std::string much = R"("computeMajor": 85028372480, "computeMinor": 85028372480)";
  CHECK(capability(much + ", " + much + ", " + much) == 9999);
}

TEST_CASE("a broken trace is refused with the reason") {
  CHECK(contains(refusal(TempFile("").path()), "is no JSON at byte"));
  CHECK(contains(refusal(TempFile(newer.substr(0, 700)).path()), "is no JSON at byte 7"));
  CHECK(contains(refusal(TempFile("{\"a\": 1}").path()), "traceEvents: has no events"));
  CHECK(contains(refusal(TempFile(newer, true, 30).path()), "is cut off"));
  CHECK(contains(refusal("no/such/file"), "cannot be read"));
}

TEST_CASE("gzip that grows a thousandfold is refused within its first few MiB") {
  // Blanks, which no trace writer packs by the million, around a trace that is whole.
  const auto padded = [](std::size_t mib) { return std::string(mib << 20, ' ') + newer; };
  CHECK(contains(refusal(TempFile(padded(5), true).path()),
                 "unpacks to more than 300 times its size; accepted: gzip of a trace"));
  CHECK(refusal(TempFile(padded(3), true).path()) == "accepted");  // too small to hurt
  CHECK(refusal(TempFile(padded(5)).path()) == "accepted");        // costs what it weighs
}

TEST_CASE("numbers within quotes are numbers, and bare nan and inf are passed over") {
  // As converters write: all of args as text. "pid": "Spans" is Kineto's own and no number.
  const std::string text = R"({"distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
"traceEvents": [
{"ph": "X", "cat": "kernel", "name": "nan \" inf", "pid": "0", "tid": "7", "ts": "1000.5",
 "dur": "90", "args": {"stream": "7", "correlation": "12", "External id": "3",
 "blocks per SM": inf, "warps per SM": -Infinity, "est. achieved occupancy %": nan,
 "queued": null, "Group size": "2", "In msg nelems": "1024", "Process Group Name": "0"}},
{"ph": "X", "cat": "Trace", "name": "t", "pid": "Spans", "tid": "x", "ts": 1, "dur": 2}]})";
  const TempFile file(text);
  std::vector<KinetoEvent> events;
  const KinetoInfo info =
      read_kineto(file.path(), [&](const KinetoEvent& event) { events.push_back(event); });
  CHECK(info.world_size == 2);
  REQUIRE(events.size() == 2);
  const KinetoEvent& kernel = events[0];
  CHECK(kernel.name == "nan \" inf");
  CHECK(kernel.start_us == 1000.5);
  CHECK(kernel.duration_us == 90);
  CHECK(kernel.pid == 0);
  CHECK(kernel.tid == 7);
  CHECK(kernel.stream == 7);
  CHECK(kernel.correlation == 12);
  CHECK(kernel.external_id == 3);
  CHECK(kernel.group_size == 2);
  CHECK(kernel.in_elements == 1024);
  CHECK(kernel.group == "0");
  CHECK(events[1].start_us == 1);
}
