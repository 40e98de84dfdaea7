#include "base/units.hpp"

#include <doctest/doctest.h>

#include <array>

#include "base/provenance.hpp"

using namespace stepcast;

namespace {

constexpr std::array all_dtypes{Dtype::fp64, Dtype::fp32,  Dtype::tf32,  Dtype::fp16, Dtype::bf16,
                                Dtype::fp8,  Dtype::int64, Dtype::int32, Dtype::int8};

}  // namespace

TEST_CASE("every dtype is read back from the name it prints") {
  for (const Dtype dtype : all_dtypes) CHECK(parse_dtype(to_string(dtype)) == dtype);
}

TEST_CASE("dtypes are read as PyTorch and its users write them") {
  CHECK(parse_dtype("torch.bfloat16") == Dtype::bf16);
  CHECK(parse_dtype("bfloat16") == Dtype::bf16);
  CHECK(parse_dtype("float32") == Dtype::fp32);
  CHECK(parse_dtype("torch.float") == Dtype::fp32);
  CHECK(parse_dtype("half") == Dtype::fp16);
  CHECK(parse_dtype("torch.float8_e4m3fn") == Dtype::fp8);
}

TEST_CASE("what is no dtype is not read as one") {
  for (const char* text : {"", "torch.", "BF16", "bf16 ", "float33", "torch.torch.half"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_dtype(text).has_value());
  }
}

TEST_CASE("an element has the size of its storage, tf32 is stored as fp32") {
  CHECK(bytes_per_element(Dtype::fp64) == 8);
  CHECK(bytes_per_element(Dtype::fp32) == 4);
  CHECK(bytes_per_element(Dtype::tf32) == 4);
  CHECK(bytes_per_element(Dtype::fp16) == 2);
  CHECK(bytes_per_element(Dtype::bf16) == 2);
  CHECK(bytes_per_element(Dtype::fp8) == 1);
  CHECK(bytes_per_element(Dtype::int64) == 8);
  CHECK(bytes_per_element(Dtype::int32) == 4);
  CHECK(bytes_per_element(Dtype::int8) == 1);
}

TEST_CASE("ceil_div and round_up on both sides of a multiple") {
  CHECK(ceil_div(0, 8) == 0);
  CHECK(ceil_div(1, 8) == 1);
  CHECK(ceil_div(8, 8) == 1);
  CHECK(ceil_div(9, 8) == 2);
  CHECK(round_up(0, 16) == 0);
  CHECK(round_up(17, 16) == 32);
  CHECK(round_up(32, 16) == 32);
  // A large product does not overflow 32 bits.
  CHECK(round_up(70'553'706'496, 16'384) == 70'553'714'688);
}

TEST_CASE("a sum is only as good as its worst part") {
  CHECK(worse(Provenance::measured, Provenance::modelled) == Provenance::modelled);
  CHECK(worse(Provenance::assumed, Provenance::extrapolated) == Provenance::assumed);
  CHECK(worse(Provenance::measured, Provenance::measured) == Provenance::measured);
}
