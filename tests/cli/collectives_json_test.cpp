// The JSON of `collectives`, `nccl predict` and `nccl compare` beside their text: the same figures.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run.hpp"

using namespace stepcast::test;
using Json = nlohmann::json;

TEST_CASE("a prediction's JSON has the rows of its text") {
  const std::string question = "nccl predict --cluster dgx-h100 --nodes 2 -b 4K -e 1GiB -f 16";
  const Json j = json_of(question);
  CHECK(j.at("op") == "all_reduce");
  CHECK(j.at("reduction") == "sum");
  CHECK(j.at("ranks") == 16);
  std::stringstream lines(run(question).out);
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    CAPTURE(line);
    REQUIRE(at < j.at("rows").size());
    const Json& row = j.at("rows").at(at++);
    std::stringstream words(line);
    std::int64_t bytes = 0;
    std::string algorithm, protocol, provenance;
    int channels = 0;
    double us = 0, algbw = 0, busbw = 0;
    words >> bytes >> algorithm >> protocol >> channels >> us >> algbw >> busbw >> provenance;
    CHECK(row.at("bytes") == bytes);
    CHECK(row.at("algorithm") == algorithm);
    CHECK(row.at("protocol") == protocol);
    CHECK(row.at("channels") == channels);
    CHECK(row.at("time_s").get<double>() * 1e6 == doctest::Approx(us).epsilon(1e-3));
    CHECK(std::abs(row.at("algbw_gbps").get<double>() - algbw) < 0.006);
    CHECK(std::abs(row.at("busbw_gbps").get<double>() - busbw) < 0.006);
    CHECK(provenance.starts_with(row.at("provenance").get<std::string>()));  // "modelled,"
    CHECK(line.ends_with("corrected for " + row.at("corrected_for").get<std::string>()));
  }
  CHECK(at == j.at("rows").size());
}

TEST_CASE("one rank has nothing to communicate, and no algorithm") {
  const std::string question = "nccl predict --cluster dgx-h100 --gpus 1 -b 1M -e 4M";
  CHECK(json_of(question).at("rows").empty());
  const std::string text = run(question).out;
  CHECK(text.find("1 rank on 1 x") != std::string::npos);
  CHECK(text.find("nothing to communicate") != std::string::npos);
  CHECK(text.find("Ring") == std::string::npos);
}

TEST_CASE("a comparison's JSON has the errors of its text") {
  const std::string question =
      "nccl compare tests/unit/collectives/logs/old2.10-2x8xA100-dgxa100-8hdr-allreduce.log "
      "--log-nodes 2 --cluster dgx-a100";
  const Json j = json_of(question);
  const std::string text = run(question).out;
  REQUIRE(j.at("logs").size() == 1);
  REQUIRE(j.at("summary").size() == 5);
  std::size_t rows = 0;
  for (const Json& one : j.at("summary")) {
    rows += one.at("rows").get<std::size_t>();
    char error[32];
    std::snprintf(error, sizeof error, "%.1f%%", one.at("median_error").get<double>() * 100);
    CHECK(text.find(error) != std::string::npos);
  }
  CHECK(rows == j.at("logs").at(0).at("rows").size());
  for (const Json& row : j.at("logs").at(0).at("rows")) {
    const double ratio = row.at("forecast_s").get<double>() / row.at("measured_s").get<double>();
    CHECK(row.at("error").get<double>() == doctest::Approx(ratio - 1));
  }
  const Json published = json_of("nccl compare --published");
  CHECK(run("nccl compare --published")
            .out.starts_with(published.at("calls").dump() + " published calls on " +
                             published.at("machines").dump() + " machines"));
}

TEST_CASE("the JSON of collectives has what the text says, null where there is no cluster") {
  const Json alone = json_of("collectives --ranks 12 --bytes 25miB");
  CHECK(alone.at("bytes") == 26'214'400);
  CHECK(alone.at("nccl").is_null());
  CHECK(alone.at("algorithms").at(1).at("time_s").is_null());
  CHECK(alone.at("algorithms").at(1).at("sent_bytes").get<double>() ==
        doctest::Approx(2.0 * 11 / 12 * 26'214'400));
  const std::string question =
      "collectives --ranks 8 --bytes 1MB --cluster dgx-h100 --engine messages";
  const Json timed = json_of(question);
  const std::string text = run(question).out;
  CHECK(timed.at("nccl").at("provenance") == "modelled");
  CHECK(text.find("NCCL takes " + timed.at("nccl").at("algorithm").get<std::string>() + "/" +
                  timed.at("nccl").at("protocol").get<std::string>() + " on " +
                  timed.at("nccl").at("channels").dump() + " channels") != std::string::npos);
  for (const Json& run_of : timed.at("by_messages")) {
    CHECK(text.find(run_of.at("algorithm").get<std::string>() + "/" +
                    run_of.at("protocol").get<std::string>()) != std::string::npos);
  }
  CHECK(run("collectives --ranks 12 --bytes 25Mb").err.find("'25Mb' is not accepted") !=
        std::string::npos);
}
