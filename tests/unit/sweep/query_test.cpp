// Questions to a table that is small enough to answer them by hand.
#include "sim/sweep/query.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/sweep/sweep_text.hpp"
#include "tests/unit/sweep/message.hpp"

using namespace stepcast;
using test::message;

namespace {

void set(Result& result, const char* name, double value) {
  result.numbers[static_cast<std::size_t>(output_index(name))] = value;
}

// nodes, strategy, engine: GPUs, tokens/s, memory
PointTable table() {
  PointTable t;
  t.inputs = {"nodes", "strategy", "engine"};
  const auto add = [&](double nodes, const char* strategy, const char* engine, double tokens,
                       double gib, const char* state) {
    PointTable::Row& row = t.rows.emplace_back();
    row.key = std::to_string(t.rows.size());
    row.version = "1";
    row.inputs = {nodes, std::string(strategy), std::string(engine)};
    row.result.state = state;
    if (std::string(state) == "refused") {
      row.result.why = "no, because of \"this\", and that";
      return;
    }
    row.result.binding = "compute";
    set(row.result, "world_size", nodes * 8);
    set(row.result, "tokens_per_s", tokens);
    set(row.result, "step_time_s", 1000 / tokens);
    set(row.result, "memory_peak_bytes", gib * 1024 * 1024 * 1024);
  };
  add(1, "ddp", "formula", 100, 90, "does_not_fit");  // 0
  add(1, "fsdp2", "formula", 80, 40, "ok");           // 1
  add(1, "hsdp", "formula", 80, 50, "ok");            // 2: as good as 1
  add(2, "fsdp2", "formula", 170, 30, "ok");          // 3
  add(2, "fsdp2", "fluid", 150, 30, "ok");            // 4: 3, confirmed
  add(4, "fsdp2", "formula", 140, 20, "ok");          // 5: more GPUs, slower than 4
  add(8, "hsdp", "formula", 600, 50, "ok");           // 6
  add(3, "hsdp", "formula", 0, 0, "refused");         // 7
  return t;
}

RowList every(const PointTable& t) {
  RowList rows(t.rows.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

std::vector<Expression> where(const PointTable& t, const std::string& text) {
  return {Expression::parse(text, "--where", column_names(t))};
}

}  // namespace

TEST_CASE("the best are those that fit, by what is better of a column") {
  const PointTable t = table();
  const RowList fit = fitting(t, every(t));
  CHECK(fit == RowList{1, 2, 3, 4, 5, 6});
  CHECK(best(t, fit, "tokens_per_s", 2) == RowList{6, 3});
  CHECK(best(t, fit, "step_time_s", 2) == RowList{6, 3});  // less is better
  CHECK(best(t, fit, "memory_peak_bytes", 1) == RowList{5});
  CHECK(best(t, fit, "nodes", 3) == RowList{1, 2, 3});
  CHECK(best(t, fit, "mfu", 3).empty());  // nobody knows
}

TEST_CASE("of what was screened and confirmed the confirmed row counts") {
  const PointTable t = table();
  CHECK(each_once(t, every(t)) == RowList{0, 1, 2, 4, 5, 6, 7});
  CHECK(confirmed(t, every(t)) == RowList{4});
  CHECK(confirmed(t, {0, 1, 2, 3}) == RowList{0, 1, 2, 3});  // nothing is
}

TEST_CASE("the Pareto front is what none beats in both columns, of equals the first") {
  const PointTable t = table();
  const RowList fit = fitting(t, each_once(t, every(t)));
  CHECK(pareto(t, fit, "world_size", "tokens_per_s") == RowList{1, 4, 6});
  CHECK(pareto(t, fit, "memory_peak_bytes", "tokens_per_s") == RowList{5, 4, 6});
  CHECK(pareto(t, fit, "tokens_per_s", "memory_peak_bytes") == RowList{5, 4, 6});
  CHECK(pareto(t, fit, "mfu", "tokens_per_s").empty());
}

TEST_CASE("conditions hold of rows, not of what a row does not know") {
  const PointTable t = table();
  CHECK(matching(t, every(t), where(t, "gpus <= 16 and state == 'ok'")) == RowList{1, 2, 3, 4});
  CHECK(matching(t, every(t), where(t, "tokens_per_s >= 140")) == RowList{3, 4, 5, 6});
  CHECK(matching(t, every(t), where(t, "not tokens_per_s >= 140")) == RowList{0, 1, 2});
  CHECK(matching(t, every(t), where(t, "micro_batch == 1")).size() == 8);  // PyTorch's default
  CHECK(matching(t, every(t), where(t, "bucket_cap_mb == 25")).empty());
}

TEST_CASE("groups count their points and have their best fitting one, confirmed where some is") {
  const PointTable t = table();
  const RowList screened{0, 1, 2, 3, 5, 6, 7};
  std::vector<Group> groups = grouped_by(t, screened, {"strategy"}, "tokens_per_s");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].values == std::vector<Cell>{std::string("ddp")});
  CHECK(groups[0].points == 1);
  CHECK(groups[0].fit == 0);
  CHECK(groups[0].best.empty());
  CHECK(groups[1].points == 3);
  CHECK(groups[1].best == RowList{3});
  CHECK(groups[2].points == 3);
  CHECK(groups[2].fit == 2);
  CHECK(groups[2].best == RowList{6});
  groups = grouped_by(t, every(t), {"strategy"}, "tokens_per_s");
  CHECK(groups[1].points == 3);  // one of them twice in the table
  CHECK(groups[1].best == RowList{4});
  CHECK(groups[2].best.empty());
}

TEST_CASE("a table is counted, and written as CSV with quotes where they are needed") {
  const PointTable t = table();
  CHECK(counted(t, every(t)) == "8 points: 6 fit, 1 do not fit in memory, 1 are refused");
  const std::string csv = to_csv(t, {1, 7});
  CHECK(csv.find("nodes,strategy,engine,state,why,binding,world_size,step_time_s,") == 0);
  CHECK(csv.find("\n1,fsdp2,formula,ok,,compute,8,12.5,") != std::string::npos);
  CHECK(csv.find("\n3,hsdp,formula,refused,\"no, because of \"\"this\"\", and that\",,,,") !=
        std::string::npos);
}

TEST_CASE("varied inputs are those that take several values") {
  const PointTable t = table();
  CHECK(varied(t, {3, 4}) == std::vector<std::string>{"engine"});
  CHECK(varied(t, {1, 2, 3}) == std::vector<std::string>{"nodes", "strategy"});
  CHECK(varied(t, {}).empty());
}

TEST_CASE("what is no column is refused by name") {
  const PointTable t = table();
  CHECK(message([&] {
          check_column(t, "token_per_s", "--by");
        }).find("--by: 'token_per_s' is no column (did you mean 'tokens_per_s'?)") == 0);
  CHECK(message([&] { check_numbers(t, "strategy", "--by"); }).find("has no numbers") !=
        std::string::npos);
  CHECK(message([&] { check_numbers(t, "nodes", "--by"); }) == "nothing");
}

TEST_CASE("the printed table has what varies, then what matters") {
  const PointTable t = table();
  CHECK(
      to_text(t, {1, 6}, {"nodes", "strategy"}) ==
      "nodes  strategy  GPUs  step time  tokens/s  tokens/s/GPU  MFU  exposed     memory  binding\n"
      "    1  fsdp2        8    12.50 s        80             -    -        -  40.00 GiB  compute\n"
      "    8  hsdp        64    1.667 s       600             -    -        -  50.00 GiB  "
      "compute\n");
  CHECK(to_text(t, RowList{}, {"nodes"}) == "no points\n");
}

TEST_CASE("an input that a point does not say is its default, where it has one") {
  PointTable table;
  table.inputs = {"accumulation", "checkpointing", "bucket_cap_mb"};
  table.rows.emplace_back();
  table.rows[0].inputs = {Cell(), Cell(), Cell()};
  CHECK(cell_of(table, 0, "accumulation") == Cell(1.0));
  CHECK(cell_of(table, 0, "checkpointing") == Cell(std::string("none")));
  CHECK(cell_of(table, 0, "bucket_cap_mb") == Cell());
}
