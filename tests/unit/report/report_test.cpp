// The page and the JSON document from a report filled by hand.
#include "sim/report/report.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

using namespace stepcast;

namespace {

Report by_hand() {
  Report r;
  r.model = "llama-3-8b";
  r.parameters = 8030261248;
  r.seq_len = 8192;
  r.micro_batch = 1;
  r.checkpointing = "full";
  r.strategy = "fsdp2";
  r.precision = "bf16-mixed";
  r.mesh = {1, 128};
  r.machine = "dgx-h100";
  r.machine_name = "NVIDIA DGX H100";
  r.gpu = "NVIDIA H100 SXM5 80GB";
  r.nodes = 16;
  r.gpus_per_node = 8;
  r.gpus = 128;
  r.network = "rail_optimised infiniband, 50 GB/s a NIC";
  r.engine = "fluid";
  r.profile = "pytorch-eager";
  r.nccl_version = "2.28.9";
  r.step = "steady";
  r.step_time = 1.25;
  r.tokens_per_second = 838860.8;
  r.tokens_per_second_per_gpu = 6553.6;
  r.tflops_per_gpu = 379.5;
  r.mfu = 0.3836;
  r.hfu = 0.5;
  r.peak_tflops = 989.4;
  r.peak_dtype = "bf16";
  r.flops_per_token = 57.914e9;
  r.split.compute = 1.0;
  r.split.optimizer = 0.05;
  r.split.exposed = {{"first_all_gather", 0.15}, {"tail_reduce_scatter", 0.05}};
  r.split.by_provenance[1] = 1.25;
  CollectiveRow row;
  row.kind = CollectiveKind::all_gather;
  row.axis = Axis::shard;
  row.dtype = Dtype::bf16;
  row.bytes = 436224000;
  row.calls = 63;
  row.ranks = 128;
  row.cost.bytes_sent_intra = 3e8;
  row.cost.bytes_sent_inter = 1e8;
  row.busbw_gbps = 300;
  r.collectives = {row};
  r.capacity = 80 * gib;
  r.memory = {{"all",
               128,
               40 * gib,
               {{"activation", 30 * gib}, {"parameter", 10 * gib}},
               "backward.compute.layers.31",
               10 * gib}};
  r.notes = {"rows are padded to the world size"};
  return r;
}

std::size_t characters(const std::string& line) {  // UTF-8
  std::size_t n = 0;
  for (const char c : line) n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return n;
}

}  // namespace

TEST_CASE("the page says each number once with its unit, on one screen of at most 100 columns") {
  for (const bool unicode : {false, true}) {
    const std::string page = to_text(by_hand(), {.unicode = unicode, .width = 96});
    int lines = 0;
    std::stringstream stream(page);
    for (std::string line; std::getline(stream, line); ++lines) {
      CAPTURE(line);
      CHECK(characters(line) <= 100);
      CHECK_FALSE(line.ends_with(" "));
    }
    CHECK(lines <= 45);
    for (const char* part : {"1.250 s", "838,861", "6,554", "379.5", "38.4 %", "50.0 %",
                             "989.4 TFLOP/s, the dense bf16", "without the input embedding",
                             "exposed: first all gather", "150.00", "18.9 GB", "6.30 GB",
                             "40.00 GiB of 80.00 GiB", "fits", "backward.compute.layers.31",
                             "modelled 100.0 %", "rows are padded", "sharded over 128"}) {
      CAPTURE(part);
      CHECK(page.find(part) != std::string::npos);
    }
    CHECK((page.find("\u2588") != std::string::npos) == unicode);
  }
}

TEST_CASE("a report that does not fit says so and how to make it fit") {
  Report r = by_hand();
  r.fits = false;
  r.capacity = r.memory.front().peak - 1;
  r.smallest_change = "checkpointing full";
  const std::string page = to_text(r);
  CHECK(page.find("DOES NOT FIT") != std::string::npos);
  CHECK(page.find("smallest change that fits: checkpointing full") != std::string::npos);
}

TEST_CASE("the JSON document has the promised keys with the promised units") {
  const nlohmann::json j = nlohmann::json::parse(to_json(by_hand()));
  CHECK(j.at("schema") == "stepcast.forecast/1");
  CHECK(j.at("step_time_s") == 1.25);
  CHECK(j.at("tokens_per_s_per_gpu") == 6553.6);
  CHECK(j.at("tflops_per_gpu") == 379.5);
  CHECK(j.at("mfu") == 0.3836);
  CHECK(j.at("hfu") == 0.5);
  CHECK(j.at("exposed_s").at("first_all_gather") == 0.15);
  CHECK(j.at("exposed_s").size() == 2);
  CHECK(j.at("time_s").at("exposed") == doctest::Approx(0.2));
  CHECK(j.at("bytes_sent_per_gpu").at("all_gather").at("inter_node") == doctest::Approx(6.3e9));
  CHECK(j.at("bytes_sent_per_gpu").at("all_gather").at("total") == doctest::Approx(25.2e9));
  CHECK(j.at("memory_bytes").at("all").at("at_peak").at("activation") == 30 * gib);
  CHECK(j.at("fits") == true);
  CHECK(j.at("smallest_change").is_null());
  CHECK(j.at("provenance").at("modelled") == 1.25);
  CHECK(j.at("notes").size() == 1);
}
