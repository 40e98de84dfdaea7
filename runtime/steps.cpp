#include "runtime/steps.hpp"

#include <algorithm>

namespace stepcast::runtime {

void add_steps(Timeline& timeline, const Schedule& schedule, const std::vector<int>& programs) {
  std::vector<Seconds> ends(programs.size(), 0);
  for (const Span& span : timeline.spans) {
    Seconds& end = ends[static_cast<std::size_t>(span.step)];
    end = std::max(end, span.end);
  }
  Seconds begin = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto program = static_cast<std::size_t>(programs[i]);
    const Seconds end = std::max(begin, ends[i]);
    timeline.steps.push_back({schedule.roles[0].steps[program].name, programs[i], begin, end});
    begin = end;
  }
}

}  // namespace stepcast::runtime
