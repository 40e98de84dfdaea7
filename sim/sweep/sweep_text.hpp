#pragma once
// A table of points for people and for programs.

#include <string>
#include <vector>

#include "sim/sweep/query.hpp"

namespace stepcast {

// Rows as a printed table: the inputs that vary, then what matters most of the outputs, then
// `also` where it is not among them.
std::string to_text(const PointTable& table, const RowList& rows,
                    const std::vector<std::string>& inputs,
                    const std::vector<std::string>& also = {});

// Groups with their best point.
std::string to_text(const PointTable& table, const std::vector<Group>& groups,
                    const std::vector<std::string>& columns,
                    const std::vector<std::string>& inputs);

// "1,440 points: 1,024 fit, 400 do not fit in memory, 16 are refused".
std::string counted(const PointTable& table, const RowList& rows);

// RFC 4180 with a header; what is not known is empty. Inputs, state, why, binding, outputs,
// version.
std::string to_csv(const PointTable& table, const RowList& rows);

// Schema "stepcast.sweep/1", docs/json-schema.md.
struct SweepJson {
  RowList rows, best, pareto;
  std::string by, pareto_x, pareto_y;
};
std::string to_json(const PointTable& table, const SweepJson& what);

}  // namespace stepcast
