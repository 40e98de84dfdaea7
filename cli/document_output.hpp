#pragma once
// --json and --report of a command whose answer is one document: text for people, the document as
// JSON with its schema, the same as a page of HTML.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "cli/command.hpp"
#include "sim/report/html_page.hpp"

namespace stepcast::cli {

struct DocumentOutput {
  std::string kind;  // "plan": the page's document, and the schema stepcast.plan/1
  bool json = false;
  std::string report = {};

  void add_to(CLI::App& command) {
    command.add_flag("--json", json, fmt::format("print JSON, schema stepcast.{}/1", kind))
        ->group("Output");
    command.add_option("--report", report, "also write it as a page of HTML")
        ->option_text("FILE")
        ->group("Output");
  }

  // Before any work: a page that could not be written.
  void check() const {
    if (!report.empty()) check_report("--report", report);
  }

  template <typename Answer>
  void show(const Answer& answer) const {
    if (!report.empty()) write_report(report, kind, to_json(answer));
    print(json ? to_json(answer) : to_text(answer));
  }
};

}  // namespace stepcast::cli
