#pragma once
// What `sweep` and `results` print of a table of points, and where to.

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "sim/sweep/sweep_text.hpp"

namespace stepcast::cli {

struct SweepOutput {
  std::vector<std::string> where;  // conditions that name outputs, or all of `results`
  std::string by;                  // the column whose best are shown; empty: tokens/s
  int top = 10;
  std::string pareto;    // "X,Y"
  std::string group_by;  // "KEY,KEY"
  std::string exported;  // "csv", "json", or a file that ends so
  std::string report;    // a page of HTML, beside what is printed
  bool all = false, refused = false, json = false;

  void add_to(CLI::App& command);
  // Bad combinations and files that cannot be written, before long work.
  void check() const;
  // Columns that the table has not.
  void check_columns(const PointTable& table) const;
};

// Prints these rows as asked. `rows` are in the table's order.
void show(const SweepOutput& output, const PointTable& table, const RowList& rows);

// What a sweep prints when nothing else is asked: the best points, of each world size where there
// are several, and why points were refused.
std::string overview(const SweepOutput& output, const PointTable& table, const RowList& rows);

// Checks that a file can be written in its place, without making it.
void check_writable(const std::string& file, const std::string& flag);

}  // namespace stepcast::cli
