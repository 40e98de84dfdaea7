// stepcast fit: a software profile from a few measured steps.

#include "validate/published/fit.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"

namespace stepcast::cli {

namespace {

constexpr std::size_t most_factors = 8;
constexpr std::int64_t most_bytes = 16ll << 20;

struct Options {
  std::string rows, common, output, name = "fitted";
  std::vector<std::string> factors = {"gemm", "attention", "memory", "collective", "launch"};
};

std::vector<const Factor*> factors_of(const Options& options) {
  const Where where{.file = "--factors", .line = 0, .key = ""};
  std::vector<const Factor*> factors;
  for (const std::string& name : options.factors) {
    factors.push_back(&factor_named(name, where));
    for (std::size_t i = 0; i + 1 < factors.size(); ++i) {
      if (factors[i] == factors.back()) throw InputError(where, name + " stands twice");
    }
  }
  if (factors.empty() || factors.size() > most_factors) {
    throw InputError(where, fmt::format("{} factors are not accepted; accepted: 1 to {}",
                                        factors.size(), most_factors));
  }
  return factors;
}

int fit(const Options& options, const ScenarioFlags& flags) {
  const std::vector<const Factor*> factors = factors_of(options);
  const Scenario common = flags.read(options.common);
  std::vector<MeasuredRow> rows;
  for (MeasuredRow& row : parse_rows(read_file(options.rows, most_bytes), options.rows, common)) {
    if (row.split == Split::fit && row.left_out.empty()) rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    throw InputError({options.rows, 1, "split"}, "no row is for fitting; accepted: at least one");
  }
  if (rows.front().measure == Measure::change_percent) {
    throw InputError({options.rows, 1, ""}, "a change is not fitted; accepted: step times, rates");
  }
  ProfileFit fitted = fit_profile(rows, common.profile.value_or("pytorch-eager"), factors);
  fitted.profile.name = options.name;
  fitted.profile.description = fmt::format("fitted to {} measured steps", rows.size());
  fitted.profile.source = "stepcast fit " + options.rows;
  fitted.profile.provenance = Provenance::measured;
  print(to_text(fitted, rows));
  if (options.output.empty()) {
    print("\n" + to_toml(fitted.profile));
  } else {
    write_file(options.output, to_toml(fitted.profile));
  }
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command
      .add_option("rows", options->rows,
                  "CSV: a column a scenario key, and step_ms or tokens_per_second, ...")
      ->option_text("ROWS.csv")
      ->required();
  command
      .add_option("scenario", options->common, "what all rows have in common, in TOML; flags, too")
      ->option_text("FILE");
  command
      .add_option(
          "--factors", options->factors,
          "at most 8 of gemm, attention, memory, head, optimizer, collective, launch, host, "
          "overlap (default gemm,attention,memory,collective,launch)")
      ->delimiter(',')
      ->option_text("NAME,...")
      ->group("Fit");
  command.add_option("--name", options->name, "of the profile: fitted")
      ->option_text("NAME")
      ->group("Fit");
  command.add_option("-o,--output", options->output, "write the profile, for --profile FILE")
      ->option_text("FILE")
      ->group("Output");
  return [options, flags] { return fit(*options, *flags); };
}

}  // namespace

const Command fit_command{
    "fit", "fit a software profile to measured steps",
    "  stepcast fit examples/fit/one-node.csv --output mine.toml\n"
    "  stepcast simulate examples/llama-3-8b-fsdp2-16-nodes.toml --profile mine.toml",
    add};

}  // namespace stepcast::cli
