// --vary: lists, series with their middle left out, ranges.
#include "sim/sweep/axis.hpp"

#include <doctest/doctest.h>

#include "tests/unit/sweep/message.hpp"

using namespace stepcast;
using test::message;

namespace {

using Texts = std::vector<std::string>;

Texts values(const std::string& text) { return parse_axis(text).values; }
std::string refusal(const std::string& text) {
  return message([&] { parse_axis(text); });
}

}  // namespace

TEST_CASE("a list is its values, each once and in one form, in the order they were said") {
  CHECK(values("strategy=hsdp,ddp,hsdp") == Texts{"hsdp", "ddp"});
  CHECK(values("bucket_cap_mb=25,25.0,2.5e1,1") == Texts{"25", "1"});
  CHECK(values("nodes=16") == Texts{"16"});
  CHECK(values("micro-batch=2,1") == Texts{"2", "1"});  // as a flag has it
  CHECK(values("fused_attention=on,false") == Texts{"true", "false"});
  CHECK(values("reduce_bucket_size=5e8") == Texts{"500000000"});
  CHECK(values("reshard_after_forward=true,8") == Texts{"true", "8"});
}

TEST_CASE("keys that are lists themselves part their values by semicolons") {
  CHECK(values("bucket_cap_mb_list=1,25;1,100") == Texts{"1,25", "1,100"});
  CHECK(values("perturb=rank=1:slow=0.5;rank=2:late=1s") ==
        Texts{"rank=1:slow=0.5", "rank=2:late=1s"});
}

TEST_CASE("a series goes on by equal factors where three values say so, else by equal distances") {
  CHECK(values("nodes=1,2,4,...,32") == Texts{"1", "2", "4", "8", "16", "32"});
  CHECK(values("nodes=1,2,4,\u2026,8") == Texts{"1", "2", "4", "8"});
  CHECK(values("nodes=1,3,9,...,81") == Texts{"1", "3", "9", "27", "81"});
  CHECK(values("nodes=1,2,...,5") == Texts{"1", "2", "3", "4", "5"});
  CHECK(values("nodes=2,4,6,...,10") == Texts{"2", "4", "6", "8", "10"});
  CHECK(values("nodes=64,32,16,...,4") == Texts{"64", "32", "16", "8", "4"});
  CHECK(values("bucket_cap_mb=0.1,0.2,...,0.5") ==
        Texts{"0.1", "0.2", "0.30000000000000004", "0.4", "0.5"});
  CHECK(refusal("nodes=1,2,4,...,100") ==
        "--vary: 'nodes=1,2,4,...,100': the values before ... lead to 64 and 128, not to 100");
  CHECK(refusal("nodes=1,...,8").find("two values or more before") != std::string::npos);
  CHECK(refusal("nodes=1,2,...").find("the last one after it") != std::string::npos);
  CHECK(refusal("nodes=4,2,...,8").find("lead to 2 and 0, not to 8") != std::string::npos);
  CHECK(refusal("nodes=1,2,9,...,20").find("neither by equal factors") != std::string::npos);
  CHECK(refusal("nodes=2,2,...,2").find("neither") != std::string::npos);
  CHECK(refusal("strategy=ddp,fsdp2,...,hsdp").find("two values") != std::string::npos);
}

TEST_CASE("a range has its ends to the digit and what is between in equal factors or distances") {
  CHECK(values("bucket_cap_mb=1:100:log3") == Texts{"1", "10", "100"});
  CHECK(values("bucket_cap_mb=1:200:log4") == Texts{"1", "5.848", "34.2", "200"});
  CHECK(values("bucket_cap_mb=5:50:lin4") == Texts{"5", "20", "35", "50"});
  CHECK(values("bucket_cap_mb=5:50:step20") == Texts{"5", "25", "45"});
  CHECK(values("micro_batch=1:4") == Texts{"1", "2", "3", "4"});
  CHECK(values("nodes=1:10:log7") == Texts{"1", "2", "3", "5", "7", "10"});  // 1.47 is 1 again
  const SweepAxis open = parse_axis("bucket_cap_mb=1:200:log");
  CHECK(open.values.empty());
  REQUIRE(open.span);
  CHECK(open.span->high == 200);
  CHECK(open.span->logarithmic);
  for (const char* bad :
       {"nodes=0:4", "nodes=4:1", "nodes=1:4:log1", "nodes=1:4:foo3", "nodes=1:4:5:6", "nodes=:4",
        "bucket_cap_mb=0:4:log3", "nodes=1.5:4", "nodes=1:nan:lin3", "nodes=1:1e6:step1e-9",
        "nodes=1:1000000", "nodes=1:4:log3,8", "nodes=1:4:lin1e9"}) {
    CAPTURE(bad);
    CHECK(refusal(bad) != "nothing");
  }
}

TEST_CASE("what is no axis is refused in words") {
  CHECK(refusal("node=1") ==
        "--vary: 'node' is no key of a scenario (did you mean 'nodes'?); accepted: the flags of "
        "`stepcast simulate --help`, with _ for -");
  CHECK(refusal("nodes").find("accepted: KEY=VALUES") != std::string::npos);
  CHECK(refusal("nodes=").find("accepted: KEY=VALUES") != std::string::npos);
  CHECK(refusal("nodes=1,,2").find("a value is missing") != std::string::npos);
  CHECK(refusal("nodes=two").find("'two' is not accepted") != std::string::npos);
  CHECK(refusal("nodes=-1").find("-1 is not accepted; accepted: 1 to 1000000") !=
        std::string::npos);
  CHECK(refusal("strategy=fspd2").find("did you mean 'fsdp2'") != std::string::npos);
  CHECK(refusal("bucket_cap_mb=nan").find("is not accepted") != std::string::npos);
}

TEST_CASE("samples of a range of whole numbers reach both ends alike") {
  const SweepAxis linear = parse_axis("micro_batch=1:4");
  CHECK(value_at(linear, 0) == "1");
  CHECK(value_at(linear, 0.24) == "1");
  CHECK(value_at(linear, 0.26) == "2");
  CHECK(value_at(linear, 0.999) == "4");
  const SweepAxis logarithmic = parse_axis("nodes=1:100:log");
  CHECK(value_at(logarithmic, 0) == "1");
  CHECK(value_at(logarithmic, 0.9999) == "100");
  CHECK(value_at(parse_axis("bucket_cap_mb=1:100:log"), 0.5) == "10");
  CHECK(value_at(parse_axis("strategy=ddp,fsdp2"), 0.5) == "fsdp2");
}
