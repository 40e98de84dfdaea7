// stepcast results: questions to the database of a sweep.

#include <CLI/CLI.hpp>
#include <memory>
#include <numeric>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/sweep_output.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  SweepOutput output;
};

int results(const Options& o) {
  o.output.check();
  const PointTable table = Store(o.file, Store::Mode::read, {note}).read();
  std::vector<Expression> conditions;
  for (const std::string& text : o.output.where) {
    conditions.push_back(Expression::parse(text, "--where", column_names(table)));
  }
  RowList rows(table.rows.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  show(o.output, table, matching(table, rows, conditions));
  return 0;
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  command.add_option("database", o->file, "what `stepcast sweep --out` made")
      ->option_text("FILE")
      ->required();
  command
      .add_option(
          "--where", o->output.where,
          "only points for which this holds, as \"nodes <= 16 and step_time_s < 1.5\"; what "
          "a point does not have does not hold; repeatable")
      ->option_text("CONDITION")
      ->allow_extra_args(false);
  o->output.add_to(command);
  return [o] { return results(*o); };
}

}  // namespace

const Command results_command{
    "results", "query the database of a sweep",
    "  stepcast results sweep.db --top 5 --by mfu --where \"memory_free > 0.1\"\n"
    "  stepcast results sweep.db --pareto world_size,tokens_per_s\n"
    "  stepcast results sweep.db --group-by strategy,nodes\n"
    "  stepcast results sweep.db --export points.csv",
    add};

}  // namespace stepcast::cli
