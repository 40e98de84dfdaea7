// stepcast validate --published: the accuracy ledger; --kernels: the kernel models on shapes and
// GPUs that were left out.

#include <CLI/CLI.hpp>
#include <memory>

#include "base/toml.hpp"
#include "cli/progress.hpp"
#include "cli/validate.hpp"
#include "sim/report/html_page.hpp"
#include "validate/kernels/kernel_report.hpp"
#include "validate/published/record.hpp"

namespace stepcast::cli {

ValidatePublished::ValidatePublished(CLI::App& command) {
  const auto flag = [&](const char* name, bool& value, const char* words) {
    command.add_flag(name, value, words)->group("Published measurements");
  };
  flag("--published", published_,
       "forecast every published row that is kept, beside two baselines; runs nothing");
  flag("--rows", rows_, "each row, too");
  flag("--kernels", kernels_,
       "leave measured kernels out, fit the rest, forecast them: errors by GPU; runs nothing");
  command.add_flag(
      "--check", check_,
      "exit 1 where a figure is worse than the recorded one by more than its tolerance");
  command
      .add_option("--picture", picture_, "write an SVG: forecast against measured, error by GPUs")
      ->option_text("FILE")
      ->group("Published measurements");
  command.add_option("--page", page_, "write docs/accuracy.md")
      ->option_text("FILE")
      ->group("Published measurements");
  command.add_option("--record", record_, "write the figures that --check compares with")
      ->option_text("FILE")
      ->group("Published measurements");
}

bool ValidatePublished::chosen() const {
  if (published_ && kernels_) {
    throw InputError({.file = "--kernels", .line = 0, .key = ""},
                     "is a table of its own; accepted: without --published");
  }
  if (published_) return true;
  const auto refuse = [](const char* flag, bool said) {
    if (said) throw InputError({.file = flag, .line = 0, .key = ""}, "needs --published");
  };
  refuse("--rows", rows_);
  refuse("--check", check_);
  refuse("--picture", !picture_.empty());
  refuse("--page", !page_.empty());
  refuse("--record", !record_.empty());
  return kernels_;
}

namespace {

// A minute's work: how far it has come, on stderr.
Ledger ledger_with_progress() {
  std::unique_ptr<Progress> shown;
  return run_ledger([&](std::size_t done, std::size_t all) {
    if (!shown) shown = std::make_unique<Progress>(all, "published rows");
    shown->at(done);
  });
}

}  // namespace

int ValidatePublished::run(bool json, const std::string& report) const {
  if (kernels_) {
    if (!report.empty()) {
      throw InputError({.file = "--report", .line = 0, .key = ""},
                       "--kernels prints text; accepted: without --report");
    }
    if (json) {
      throw InputError({.file = "--json", .line = 0, .key = ""},
                       "--kernels prints text; accepted: without --json");
    }
    print(accuracy_text(kernel_accuracy(true)));
    return 0;
  }
  if (!report.empty()) check_report("--report", report);
  const Ledger ledger = ledger_with_progress();
  if (!page_.empty()) write_file(page_, to_page(ledger));
  if (!record_.empty()) write_file(record_, to_record(ledger));
  if (!picture_.empty()) write_file(picture_, to_picture(ledger));
  if (!report.empty()) write_report(report, "published", to_json(ledger));
  print(json ? to_json(ledger) : to_text(ledger, rows_));
  if (!check_) return 0;
  const std::vector<std::string> worse =
      worse_than_recorded(ledger, recorded_figures(), "recorded.toml");
  for (const std::string& figure : worse) note("worse than recorded: " + figure);
  return worse.empty() ? 0 : 1;
}

}  // namespace stepcast::cli
