// Tables of measured steps: what is read, and what each mistake is answered.

#include "validate/published/rows.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

std::string refusal(const std::string& csv) {
  try {
    parse_rows(csv, "mine.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a row is a scenario and a measured number, empty cells keep what all rows have") {
  Scenario common;
  common.strategy = "fsdp1";
  common.seq_len = 4096;
  const std::vector<MeasuredRow> rows = parse_rows(
      "id,split,model,gpus,seq_len,tokens_per_second,memory_gib\n"
      "a,check,mpt-7b,16,2048,85144,70.5\n"
      "\"b, later\",fit,mpt-1b,8,,1e5,\n",
      "mine.csv", common);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].id == "a");
  CHECK(rows[0].split == Split::check);
  CHECK(rows[0].scenario.model == "mpt-7b");
  CHECK(rows[0].scenario.strategy == "fsdp1");
  CHECK(rows[0].scenario.seq_len == 2048);
  CHECK(rows[0].measure == Measure::tokens_per_second);
  CHECK(rows[0].value == 85144);
  CHECK(*rows[0].memory == static_cast<Bytes>(70.5 * 1024) * 1024 * 1024);
  CHECK(rows[1].id == "b, later");
  CHECK(rows[1].scenario.seq_len == 4096);
  CHECK_FALSE(rows[1].memory.has_value());
  CHECK(rows[1].where.line == 3);
}

TEST_CASE("a throughput becomes the seconds of a step") {
  // 8 GPUs, 4 sequences of 1,000 tokens each: 32,000 tokens a step.
  Report report;
  report.gpus = 8;
  report.samples_per_step = 32;
  report.tokens_per_step = 32000;
  MeasuredRow row;
  row.value = 16000;
  row.measure = Measure::tokens_per_second;
  CHECK(measured_seconds(row, report) == doctest::Approx(2.0));
  row.measure = Measure::tokens_per_second_per_gpu;
  CHECK(measured_seconds(row, report) == doctest::Approx(0.25));
  row.measure = Measure::samples_per_second;
  CHECK(measured_seconds(row, report) == doctest::Approx(0.002));
  row.measure = Measure::samples_per_second_per_gpu;
  CHECK(measured_seconds(row, report) == doctest::Approx(0.00025));
  row.measure = Measure::step_ms;
  CHECK(measured_seconds(row, report) == doctest::Approx(16.0));
}

TEST_CASE("mistakes are answered with file, line, column and what is accepted") {
  CHECK(contains(refusal("model,step_ms\n"), "mine.csv:1"));
  CHECK(contains(refusal("model,stepms\na,1\n"), "step_ms"));
  CHECK(contains(refusal("model,gpus\na,1\n"), "tokens_per_second"));
  CHECK(contains(refusal("model,model,step_ms\na,b,1\n"), "mine.csv:1: model: stands twice"));
  CHECK(contains(refusal("model,step_ms\na,1\nb\n"), "mine.csv:3: has 1 cells; accepted: 2"));
  CHECK(contains(refusal("model,step_ms\na,fast\n"), "mine.csv:2: step_ms: 'fast'"));
  CHECK(contains(refusal("model,step_ms\na,\n"), "mine.csv:2: step_ms: is empty"));
  CHECK(contains(refusal("model,step_ms\na,-1\n"), "number of 0 or more"));
  CHECK(contains(refusal("model,gpus,step_ms\na,1,1\nb,many,1\n"), "mine.csv:3: gpus"));
  CHECK(contains(refusal("split,step_ms\nmaybe,1\n"), "fit, check, none"));
  CHECK(contains(refusal("model,step_ms\n\"a,1\n"), "a quote is not closed"));
}
