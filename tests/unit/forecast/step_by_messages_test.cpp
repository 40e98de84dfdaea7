// Whole steps message by message beside the fluid engine, and what only messages see.

#include "sim/forecast/step_by_messages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast::testing {
namespace {

Scenario scenario(const std::string& strategy, int gpus, const std::string& nccl = "") {
  Scenario s;
  s.model = "gpt2";
  s.cluster = "dgx-h100";
  s.gpus = gpus;
  s.strategy = strategy;
  s.seq_len = 1024;
  s.micro_batch = 16;  // enough for kernels, not the host, to set the pace
  if (strategy == "hsdp") s.shard_group = 4;
  if (!nccl.empty()) s.nccl = nccl;
  s.collective_corrections = false;
  return s;
}

Forecast by(const std::string& engine, Scenario s) {
  s.engine = engine;
  return forecast(s, {.search_change = false});
}

// Of the step, messages over fluid less 1, in percent. The fluid engine cannot run before the
// messages engine in one process: its run comes last.
double difference(const Scenario& s) {
  const Forecast messages = by("messages", s);
  const Forecast fluid = by("fluid", s);
  const double percent = 100 * (messages.report.step_time / fluid.report.step_time - 1);
  MESSAGE(*s.strategy, " on ", *s.gpus, ": ", messages.report.step_time * 1e3, " ms by messages, ",
          fluid.report.step_time * 1e3, " ms fluid: ", percent, " %");
  CHECK(messages.report.engine == "messages");
  CHECK(messages.report.corrected_classes.empty());
  return percent;
}

}  // namespace

TEST_CASE("step by messages: DDP on two nodes of 4 agrees with the fluid engine within 1 %") {
  Scenario s = scenario("ddp", 8, "NCCL_ALGO=Ring NCCL_PROTO=Simple");
  s.gpus_per_node = 4;
  CHECK(std::abs(difference(s)) < 1);
}

TEST_CASE("step by messages: DDP as NCCL chooses, by NVLS on a node, agrees within 1 %") {
  CHECK(std::abs(difference(scenario("ddp", 8))) < 1);
}

TEST_CASE("step by messages: FSDP2 on a node agrees with the fluid engine within 1 %") {
  CHECK(std::abs(difference(scenario("fsdp2", 8))) < 1);
}

TEST_CASE("step by messages: HSDP on two nodes agrees with the fluid engine within 1 %") {
  Scenario s = scenario("hsdp", 8);
  s.gpus_per_node = 4;
  CHECK(std::abs(difference(s)) < 1);
}

TEST_CASE("step by messages: a NIC at a tenth stops the ring that goes over it") {
  Scenario s = scenario("ddp", 4, "NCCL_ALGO=Ring NCCL_PROTO=Simple");
  s.gpus_per_node = 2;
  s.engine = "messages";
  s.perturb = {"node=1,nic=0:slow=0.1"};
  const Forecast f = forecast(s, {.search_change = false});
  REQUIRE(f.perturbed);
  CHECK(f.perturbed->report.step_time > 1.5 * f.report.step_time);
}

TEST_CASE("step by messages: more than 64 ranks only when told, and what has no messages never") {
  const auto refusal = [](const Scenario& s) -> std::string {
    try {
      by("messages", s);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string many = refusal(scenario("ddp", 72));
  CHECK(many.find("a step of 72 ranks sends ") != std::string::npos);
  CHECK(many.find("accepted: up to 64, or `stepcast simulate --go-on`") != std::string::npos);
  // Few ranks, but 28 million messages of 32 KiB.
  Scenario small_messages = scenario("fsdp2", 16, "NCCL_PROTO=LL");
  small_messages.model = "llama-3-8b";
  small_messages.seq_len = 2048;
  small_messages.micro_batch = 1;
  CHECK(refusal(small_messages).find("accepted: up to 600 s, as of larger messages") !=
        std::string::npos);
  CHECK(refusal(scenario("ddp", 12)).find("the same GPUs of a communicator") != std::string::npos);
  Scenario oversubscribed = scenario("ddp", 16);
  oversubscribed.oversubscription = 2;
  CHECK(refusal(oversubscribed).find("no uplinks") != std::string::npos);
}

}  // namespace stepcast::testing
