#include "sim/memory/closed_form.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/memory/overheads.hpp"

using namespace stepcast;

namespace {

constexpr std::int64_t billion = 1'000'000'000;

Bytes total(Partition partition, std::int64_t shards, const StateRecipe& recipe = mixed_16bit()) {
  return persistent_state(7 * billion, partition, shards, recipe).total();
}

const StateRow& row_of(const std::vector<StateRow>& table, const std::string& strategy,
                       const std::string& recipe) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const StateRow& candidate) {
    return candidate.strategy == strategy && candidate.recipe == recipe;
  });
  REQUIRE(row != table.end());
  return *row;
}

}  // namespace

TEST_CASE("E-19: 7e9 parameters on 8 GPUs take 112, 38.5, 26.25 and 14 GB") {
  // 16 * 7; (4 + 12/8) * 7; (2 + 14/8) * 7; 16/8 * 7
  CHECK(total(Partition::nothing, 8) == 112'000'000'000);
  CHECK(total(Partition::optimizer, 8) == 38'500'000'000);
  CHECK(total(Partition::optimizer_and_gradients, 8) == 26'250'000'000);
  CHECK(total(Partition::everything, 8) == 14'000'000'000);
  // The same in GiB: 104.31, 35.86, 24.45, 13.04.
  const double one_gib = static_cast<double>(gib);
  CHECK(static_cast<double>(total(Partition::nothing, 8)) / one_gib ==
        doctest::Approx(104.31).epsilon(1e-4));
  CHECK(static_cast<double>(total(Partition::everything, 8)) / one_gib ==
        doctest::Approx(13.04).epsilon(1e-3));
}

TEST_CASE("the states add up from parameters, gradients and optimizer") {
  const StateBytes zero2 =
      persistent_state(7 * billion, Partition::optimizer_and_gradients, 8, mixed_16bit());
  CHECK(zero2.parameters == 14 * billion);   // 2 bytes, whole
  CHECK(zero2.gradients == 1'750'000'000);   // 2 bytes, an eighth
  CHECK(zero2.optimizer == 10'500'000'000);  // 12 bytes, an eighth
}

TEST_CASE("70e9 parameters fully sharded take 17.5 GB on 64 GPUs and 140 GB on 8") {
  const auto on = [](std::int64_t gpus) {
    return persistent_state(70 * billion, Partition::everything, gpus, fp32_shard()).total();
  };
  CHECK(on(64) == 17'500'000'000);
  CHECK(on(8) == 140'000'000'000);
}

TEST_CASE("a shard that does not divide is rounded up to whole elements") {
  // ceil(10 / 4) = 3 elements of 16 bytes
  CHECK(persistent_state(10, Partition::everything, 4, mixed_16bit()).total() == 48);
  CHECK(persistent_state(10, Partition::everything, 64, mixed_16bit()).total() == 16);
}

TEST_CASE("the table's framework column holds what the software keeps") {
  TableSizes sizes;
  sizes.parameters = 7 * billion;
  sizes.world = 8;
  sizes.shard_group = 8;
  const std::vector<StateRow> table = state_table(sizes);

  const StateRow& ddp = row_of(table, "ddp", "fp32, autocast");
  CHECK(ddp.textbook.total() == 112 * billion);
  CHECK(ddp.framework.total() == 112 * billion);    // 4 + 4 + 8
  CHECK(ddp.framework_always() == 140 * billion);   // and 4 of buckets
  CHECK(ddp.framework_in_step() == 154 * billion);  // and at most 2 of weight copies
  CHECK(row_of(table, "ddp", "16-bit, fp32 master").framework_in_step() == 112 * billion);
  const StateRow& pure = row_of(table, "ddp", "bf16 throughout");
  CHECK(pure.framework.total() == 56 * billion);   // 2 + 2 + 4
  CHECK(pure.framework_always() == 70 * billion);  // and 2 of buckets
  CHECK(row_of(table, "ddp", "16-bit, fp32 main gradients").framework.total() == 126 * billion);
  CHECK(row_of(table, "distributed optimizer", "16-bit, fp32 main gradients").framework.total() ==
        52'500'000'000);  // 6 * 7 + 12 / 8 * 7
  CHECK(row_of(table, "zero1", "16-bit, fp32 master").framework.total() == 38'500'000'000);
  CHECK(row_of(table, "fsdp full_shard, fsdp2", "fp32 shard, bf16 gathered").framework.total() ==
        14 * billion);
  const StateRow& keeps = row_of(table, "fsdp shard_grad_op", "fp32 shard, bf16 gathered");
  CHECK(keeps.framework_always() == 14 * billion);
  CHECK(keeps.framework_in_step() == 28 * billion);  // and 2 bytes of every parameter
  CHECK(row_of(table, "fsdp no_shard", "fp32 shard, bf16 gathered").framework.total() ==
        112 * billion);
  CHECK(row_of(table, "hsdp", "fp32 shard, bf16 gathered").framework.total() == 14 * billion);
  CHECK(row_of(table, "zero3 hpZ", "16-bit, fp32 master").framework_always() == 15'750'000'000);
}

TEST_CASE("DeepSpeed's estimators add fp32 gradients and the largest layer") {
  TableSizes sizes;
  sizes.parameters = 7 * billion;
  sizes.world = 8;
  sizes.largest_layer = 200'000'000;
  const std::vector<StateRow> table = state_table(sizes);
  // (2 + (6 + 12) / 8) * 7 and 18 / 8 * 7, and 4 bytes of the largest layer
  CHECK(row_of(table, "zero3", "DeepSpeed's estimator").framework.total() == 15'750'000'000);
  CHECK(row_of(table, "zero3", "DeepSpeed's estimator").framework_always() == 16'550'000'000);
  CHECK(row_of(table, "zero2", "DeepSpeed's estimator").framework.total() == 29'750'000'000);
}

TEST_CASE("HSDP's states depend on the shard group, not on the world") {
  TableSizes sizes;
  sizes.parameters = 7 * billion;
  sizes.world = 64;
  sizes.shard_group = 8;
  sizes.root_parameters = 262'148'096;  // Llama-2-7B's embedding, head and norm
  const std::vector<StateRow> table = state_table(sizes);
  const StateRow& hsdp = row_of(table, "hsdp", "fp32 shard, bf16 gathered");
  CHECK(hsdp.framework.total() == 14 * billion);
  CHECK(hsdp.framework_in_step() - hsdp.framework_always() == 524'296'192);  // 500 MiB in bf16
}

TEST_CASE("E-20: a Llama-2-7B block under FSDP2 peaks at ten bytes a parameter") {
  const std::int64_t block = 202'383'360;
  const UnitTransients unit = fsdp2_transients(block, Dtype::bf16, Dtype::bf16, Dtype::fp32);
  CHECK(unit.gather_output == 404'766'720);    // 386.0 MiB
  CHECK(unit.reduce_input == 809'533'440);     // 772.0 MiB
  CHECK(unit.backward_peak == 2'023'833'600);  // 10 bytes: 2.02 GB
  CHECK(unit.forward_peak == 6 * block);
  CHECK(unit.copy_out_traffic == 4 * block);        // 0.81 GB
  CHECK(unit.reduce_copy_in_traffic == 6 * block);  // 1.21 GB
  CHECK(fsdp2_transients(block, Dtype::bf16, Dtype::bf16, Dtype::bf16).backward_peak == 8 * block);
  CHECK(persistent_state(6'738'415'616, Partition::everything, 8, fp32_shard()).total() ==
        13'476'831'232);  // 2 * 6,738,415,616
}

TEST_CASE("E-19: ZeRO-2 adds two 1 GB buckets, a flatten copy and an fp32 slice at the step") {
  const ZeroTransients overlapped = zero12_transients(7 * billion, 8);
  CHECK(overlapped.buckets == 2 * billion);
  CHECK(overlapped.flatten == billion);
  CHECK(overlapped.step_slice == 3'500'000'000);    // 4 bytes of an eighth
  CHECK(overlapped.step_flatten == 1'750'000'000);  // 2 bytes of an eighth
  CHECK(zero12_transients(7 * billion, 8, 500'000'000, false).buckets == billion);
}

TEST_CASE("70e9 fully sharded on 8 GPUs of 80 GB do not fit, 16 GPUs do") {
  FitQuestion question;
  question.parameters = 70 * billion;
  question.partition = Partition::everything;
  question.recipe = fp32_shard();
  question.gpus = question.gpus_per_node = 8;
  question.capacity = 80 * billion;
  const FitAnswer answer = smallest_change_that_fits(question);
  CHECK_FALSE(answer.fits);
  CHECK(answer.needed == 140 * billion);
  REQUIRE(answer.fewest_shards);
  CHECK(*answer.fewest_shards == 14);  // 16 * 70 / 14 = 80 exactly
  CHECK(answer.gpus == 16);            // two nodes
  CHECK(answer.needed_then == 70 * billion);
  CHECK(answer.sentence ==
        "does not fit: fully sharded needs 140 GB of 80 GB a GPU; fully sharded it needs at least "
        "14 GPUs: 16 (2 nodes of 8), 70 GB each");
}

TEST_CASE("the answer changes at the byte") {
  FitQuestion question;
  question.parameters = 70 * billion;
  question.partition = Partition::everything;
  question.recipe = fp32_shard();
  question.gpus = 14;
  question.capacity = 80 * billion;
  CHECK(smallest_change_that_fits(question).fits);
  question.beside = 1;
  const FitAnswer answer = smallest_change_that_fits(question);
  CHECK_FALSE(answer.fits);
  CHECK(answer.gpus == 15);
}

TEST_CASE("DDP that does not fit is told to shard on the GPUs it has, as little as will do") {
  FitQuestion question;
  question.parameters = 7 * billion;
  question.recipe = mixed_16bit();
  question.gpus = question.gpus_per_node = 8;
  question.capacity = 80 * billion;  // 112 needed; 38.5 with the optimizer state sharded
  FitAnswer answer = smallest_change_that_fits(question);
  CHECK_FALSE(answer.fits);
  REQUIRE(answer.partition);
  CHECK(*answer.partition == Partition::optimizer);
  CHECK(answer.needed_then == 38'500'000'000);
  question.capacity = 32 * billion;  // 26.25 with the gradients too
  answer = smallest_change_that_fits(question);
  CHECK(*answer.partition == Partition::optimizer_and_gradients);
  question.capacity = 14 * billion;
  answer = smallest_change_that_fits(question);
  CHECK(*answer.partition == Partition::everything);
  CHECK(answer.gpus == 8);
}

TEST_CASE("HSDP that does not fit is told a larger shard group, then more GPUs") {
  FitQuestion question;
  question.parameters = 70 * billion;
  question.partition = Partition::everything;
  question.recipe = fp32_shard();
  question.gpus = 32;
  question.gpus_per_node = 8;
  question.shard_group = 8;
  question.capacity = 80 * billion;
  FitAnswer answer = smallest_change_that_fits(question);
  CHECK(answer.shard_group == 16);  // divides 32, at least 14
  CHECK(answer.gpus == 32);
  question.capacity = 30 * billion;  // 1120 / 30 = 37.3: 38 GPUs, five nodes
  answer = smallest_change_that_fits(question);
  CHECK(*answer.fewest_shards == 38);
  CHECK(answer.gpus == 40);
}

TEST_CASE("where nothing fits the answer says why") {
  FitQuestion question;
  question.parameters = 7 * billion;
  question.partition = Partition::everything;
  question.recipe = fp32_shard();
  question.gpus = 8;
  question.capacity = 10 * billion;
  question.beside = 10 * billion;
  const FitAnswer answer = smallest_change_that_fits(question);
  CHECK_FALSE(answer.fits);
  CHECK_FALSE(answer.partition);
  CHECK(answer.sentence.find("leave no room") != std::string::npos);
}

TEST_CASE("the fewest shards fit and one fewer does not") {
  for (const std::int64_t parameters : {1'000'003LL, 7'000'000'000LL, 123'456'789LL}) {
    for (const Bytes room : {16'000'000LL, 40'000'001LL, 20'000'000'000LL}) {
      for (const Partition partition :
           {Partition::optimizer, Partition::optimizer_and_gradients, Partition::everything}) {
        CAPTURE(parameters);
        CAPTURE(room);
        CAPTURE(static_cast<int>(partition));
        const auto needed = [&](std::int64_t shards) {
          return persistent_state(parameters, partition, shards, mixed_16bit()).total();
        };
        const auto fewest = fewest_shards(parameters, partition, mixed_16bit(), room);
        if (!fewest) {
          CHECK(needed(parameters) > room);  // one element each, and still too much
          continue;
        }
        CHECK(needed(*fewest) <= room);
        if (*fewest > 1) CHECK(needed(*fewest - 1) > room);
      }
    }
  }
}

TEST_CASE("sizes that are out of range are refused by name") {
  CHECK_THROWS_WITH_AS(persistent_state(0, Partition::everything, 8, mixed_16bit()),
                       "parameters: 0 is out of range; accepted: 1 to 1000000000000000",
                       InputError);
  CHECK_THROWS_AS(persistent_state(7, Partition::everything, 0, mixed_16bit()), InputError);
  CHECK_THROWS_AS(fsdp2_transients(-1, Dtype::bf16, Dtype::bf16, Dtype::fp32), InputError);
  FitQuestion question;
  question.parameters = 7;
  question.recipe = mixed_16bit();
  question.gpus = 8;
  question.shard_group = 3;
  question.capacity = 1;
  CHECK_THROWS_WITH_AS(smallest_change_that_fits(question),
                       "shard group: 3 is not accepted: it must divide 8 GPUs", InputError);
}

TEST_CASE("context and NCCL together are the 2.00 GiB that were published, and say so") {
  const std::vector<Overhead> list = overheads(8);
  REQUIRE(list.size() == 2);
  CHECK(sum_of(list) == 2 * gib);
  for (const Overhead& overhead : list) {
    CHECK(overhead.provenance == Provenance::assumed);
    CHECK_FALSE(overhead.source.empty());
    CHECK(overhead.least <= overhead.bytes);
    CHECK(overhead.bytes <= overhead.most);
  }
  CHECK(overheads(1).size() == 1);  // one rank has no communicator
}
