// E-18 and E-19 of docs/sources.md: 7e9 parameters on 8 GPUs, by hand.
#include <doctest/doctest.h>

#include "sim/forecast/params_tables.hpp"

using namespace stepcast;

namespace {

Scenario params(double count, std::int64_t gpus) {
  Scenario s;
  s.params = count;
  s.gpus = gpus;
  return s;
}

const VolumeRow& find(const std::vector<VolumeRow>& rows, const std::string& strategy) {
  for (const VolumeRow& row : rows) {
    if (row.strategy == strategy) return row;
  }
  FAIL("no row " << strategy);
  return rows.front();
}

}  // namespace

TEST_CASE("the volumes of 7e9 parameters on 8 GPUs are the ones of the table") {
  const auto one = volume_table(7'000'000'000, 8, 8, 1);
  CHECK(find(one, "ddp").bytes_16bit == doctest::Approx(24.5e9));
  CHECK(find(one, "ddp").bytes_fp32_reduce == doctest::Approx(49e9));
  CHECK(find(one, "fsdp2, full_shard").bytes_16bit == doctest::Approx(36.75e9));
  CHECK(find(one, "fsdp2, full_shard").bytes_fp32_reduce == doctest::Approx(49e9));
  CHECK(find(one, "shard_grad_op").bytes_16bit == doctest::Approx(24.5e9));
  CHECK(find(one, "shard_grad_op").bytes_fp32_reduce == doctest::Approx(36.75e9));
  CHECK(find(one, "zero1").bytes_16bit == doctest::Approx(36.75e9));
  CHECK(find(one, "zero2").bytes_16bit == doctest::Approx(36.75e9));
  CHECK(find(one, "zero3").bytes_16bit == doctest::Approx(36.75e9));
  CHECK(find(one, "fsdp2 reshard false").bytes_16bit == doctest::Approx(24.5e9));
  // FULL_SHARD moves 1.5 times DDP's bytes in the same dtype.
  CHECK(find(one, "fsdp2, full_shard").bytes_16bit ==
        doctest::Approx(1.5 * find(one, "ddp").bytes_16bit));
}

TEST_CASE("four micro-batches multiply what is sent in each") {
  const auto four = volume_table(7'000'000'000, 8, 8, 4);
  CHECK(find(four, "ddp").bytes_16bit == doctest::Approx(24.5e9));
  CHECK(find(four, "ddp, sync every").bytes_16bit == doctest::Approx(98e9));
  CHECK(find(four, "fsdp2, full_shard").bytes_16bit == doctest::Approx(110.25e9));
  CHECK(find(four, "fsdp2, full_shard, sync every").bytes_16bit == doctest::Approx(147e9));
  CHECK(find(four, "shard_grad_op").bytes_16bit == doctest::Approx(24.5e9));
  CHECK(find(four, "shard_grad_op, sync every").bytes_16bit == doctest::Approx(98e9));
  CHECK(find(four, "fsdp2 reshard false").bytes_16bit == doctest::Approx(61.25e9));
  CHECK(find(four, "zero1").bytes_16bit == doctest::Approx(36.75e9));
  CHECK(find(four, "zero2").bytes_16bit == doctest::Approx(110.25e9));
  CHECK(find(four, "zero3").bytes_16bit == doctest::Approx(147e9));
}

TEST_CASE("HSDP sends fsdp2's bytes within the group and 2 (R-1)/R of a shard between groups") {
  // 8 x R: 36.75 within; R = 2: 1.75, R = 4: 2.625, R = 8: 3.0625 GB between.
  const std::int64_t groups[] = {2, 4, 8};
  const double between[] = {1.75e9, 2.625e9, 3.0625e9};
  for (int i = 0; i < 3; ++i) {
    const auto rows = volume_table(7'000'000'000, 8 * groups[i], 8, 1);
    CHECK(find(rows, "hsdp").inter_node == doctest::Approx(between[i]));
    CHECK(find(rows, "hsdp").bytes_16bit == doctest::Approx(36.75e9 + between[i]));
  }
}

TEST_CASE("7e9 parameters on 8 GPUs need 112, 38.5, 26.25 and 14 GB") {
  const ParamsTables t = params_tables(params(7e9, 8));
  const auto total = [&](const std::string& strategy) -> Bytes {
    for (const StateRow& row : t.memory) {
      if (row.strategy == strategy) return row.textbook.total();
    }
    return 0;
  };
  CHECK(total("ddp") == 112'000'000'000);
  CHECK(total("zero1") == 38'500'000'000);
  CHECK(total("zero2") == 26'250'000'000);
  CHECK(total("zero3") == 14'000'000'000);
  CHECK(total("fsdp full_shard, fsdp2") == 14'000'000'000);
  const std::string text = to_text(t);
  for (const char* part : {"112", "38.5", "26.25", "no time", "24.5", "36.75"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("70e9 fully sharded takes 17.5 GB on 64 GPUs and does not fit 8 of 80 GB") {
  Scenario s = params(70e9, 64);
  s.gpu = "h100-sxm";
  s.strategy = "fsdp2";
  const ParamsTables fits = params_tables(s);
  CHECK(fits.infeasible.empty());
  CHECK(fits.fit.find("17.5 GB") != std::string::npos);
  s.gpus = 8;
  const ParamsTables not_8 = params_tables(s);
  CHECK(not_8.infeasible.find("does not fit") != std::string::npos);
  CHECK(not_8.infeasible.find("140 GB") != std::string::npos);
  CHECK(not_8.infeasible.find("GPUs") != std::string::npos);
}

TEST_CASE("what a parameter count cannot say is refused") {
  Scenario s = params(7e9, 8);
  s.seq_len = 4096;
  CHECK_THROWS_WITH_AS(params_tables(s), doctest::Contains("--seq-len"), InputError);
  Scenario none;
  none.params = 7e9;
  CHECK_THROWS_WITH_AS(params_tables(none), doctest::Contains("--gpus"), InputError);
  Scenario group = params(7e9, 12);
  group.shard_group = 8;
  CHECK_THROWS_WITH_AS(params_tables(group), doctest::Contains("does not divide"), InputError);
}
