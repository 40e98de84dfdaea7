#pragma once
// Questions to a table of points: which are best, which are worth their price, what each group's
// best is. Rows are named by their index in the table.
//
// Columns are the keys of the scenario, the outputs (outputs.hpp), and state, why and binding.
// Tested by tests/unit/sweep/query_test.cpp.

#include <cstddef>
#include <string>
#include <vector>

#include "sim/sweep/store.hpp"

namespace stepcast {

using RowList = std::vector<std::size_t>;

Cell cell_of(const PointTable& table, std::size_t row, const std::string& column);
// All that cell_of() and conditions know.
std::vector<std::string> column_names(const PointTable& table);

// Rows that fit: what a choice is among.
RowList fitting(const PointTable& table, const RowList& rows);
// Rows for which all conditions hold; one that is unknown does not.
RowList matching(const PointTable& table, const RowList& rows,
                 const std::vector<Expression>& conditions);
// Where points were screened by formula and some confirmed by fluid, the confirmed ones alone: the
// formula engine sees no contention, so that what was only screened would look better than what was
// confirmed. Else all.
RowList confirmed(const PointTable& table, const RowList& rows);
// Each point once, of one that was screened and confirmed the confirmed row.
RowList each_once(const PointTable& table, const RowList& rows);

// Inputs that take several values in these rows.
std::vector<std::string> varied(const PointTable& table, const RowList& rows);

// -1: less of it is better. An output says; of a key, and of the world size, less.
int direction(const std::string& column);

// The rows that have the column's best values, best first; equal ones in the table's order.
RowList best(const PointTable& table, const RowList& rows, const std::string& by, std::size_t most);

// The rows that no other row beats in one of two columns without losing in the other, by rising x;
// of equal ones the first.
RowList pareto(const PointTable& table, const RowList& rows, const std::string& x,
               const std::string& y);

struct Group {
  std::vector<Cell> values;  // of the columns asked for
  std::size_t points = 0;
  std::size_t fit = 0;
  RowList best;  // of what fits, and is confirmed where some is, the best by `by`; or none
};
// By rising values.
std::vector<Group> grouped_by(const PointTable& table, const RowList& rows,
                              const std::vector<std::string>& columns, const std::string& by);

// tokens_per_s, or samples_per_s where no row counts tokens.
std::string default_by(const PointTable& table, const RowList& rows);

// InputError at `flag` for what is no column, or has no numbers to compare.
void check_column(const PointTable& table, const std::string& column, const std::string& flag);
void check_numbers(const PointTable& table, const std::string& column, const std::string& flag);

}  // namespace stepcast
