#include "sim/forecast/evaluator.hpp"

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast {

struct Evaluator::Impl {};

Evaluator::Evaluator() : impl_(std::make_unique<Impl>()) {}
Evaluator::~Evaluator() = default;

Evaluation Evaluator::evaluate(const Scenario& scenario) {
  Evaluation e;
  try {
    const Forecast f = forecast(scenario, {.search_change = false});
    return evaluation_of(f.report, f.resolved.profile);
  } catch (const InputError& error) {
    e.state = Evaluation::State::refused;
    e.why = error.what();
  } catch (const InfeasibleError& error) {
    e.state = Evaluation::State::infeasible;
    e.why = error.what();
  }
  return e;
}

}  // namespace stepcast
