#include "tests/unit/cuda/fake_math.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/numbers.hpp"
#include "runtime/train/mlp.hpp"

namespace stepcast::testing {

using namespace runtime;

namespace {

void leave(FaultCell fault) {
  if (fault.cell != nullptr && *fault.cell == 0) *fault.cell = fault.number;
}

template <typename Stored>
bool all_ones(const std::byte* memory, std::int64_t at) {
  const std::byte* from = memory + at * static_cast<std::int64_t>(sizeof(Stored));
  return std::all_of(from, from + sizeof(Stored),
                     [](std::byte b) { return b == static_cast<std::byte>(poison_byte); });
}

double get(GpuPlace p, std::int64_t i, FaultCell fault) {
  return visit(p.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    if (all_ones<Stored>(p.memory, p.at + i)) leave(fault);
    return static_cast<double>(load<Stored>(p.memory, p.at + i));
  });
}
void put(GpuPlace p, std::int64_t i, double value) {
  visit(p.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    store<Stored>(p.memory, p.at + i, static_cast<typename Number<Stored>::Real>(value));
  });
}

// Calls f with a value of the real type.
template <typename F>
void with(bool wide, F&& f) {
  if (wide) {
    f(double{});
  } else {
    f(float{});
  }
}
template <typename Real>
Values<Real> values(const std::byte* memory, std::int64_t count) {
  const auto* from = reinterpret_cast<const Real*>(memory);
  return Values<Real>(from, from + count);
}
template <typename Real>
void put_back(std::byte* memory, const Values<Real>& x) {
  std::copy(x.begin(), x.end(), reinterpret_cast<Real*>(memory));
}
std::vector<std::int64_t> ids_of(const std::int64_t* ids, std::int64_t tokens,
                                 std::int64_t vocabulary, FaultCell fault) {
  std::vector<std::int64_t> list(ids, ids + tokens);
  for (std::int64_t& id : list) {
    if (id >= 0 && id < vocabulary) continue;
    leave(fault);
    id = 0;
  }
  return list;
}

std::vector<std::int64_t> labels_of(const std::int64_t* labels, std::int64_t tokens,
                                    std::int64_t vocabulary, FaultCell fault) {
  std::vector<std::int64_t> list(labels, labels + tokens);
  for (std::int64_t& label : list) {
    if (label == ignored_label || (label >= 0 && label < vocabulary)) continue;
    leave(fault);
    label = 0;
  }
  return list;
}

}  // namespace

void FakeMath::move(GpuStream* stream, GpuPlace from, GpuPlace to, std::int64_t count,
                    GpuFactor factor, bool add, FaultCell fault) {
  push_(stream, [=] {
    const bool times = factor.times.memory != nullptr;
    const double by = factor.number * (times ? get(factor.times, 0, fault) : 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = get(from, i, fault) * by;
      put(to, i, add ? x + get(to, i, fault) : x);
    }
  });
}

void FakeMath::set(GpuStream* stream, GpuPlace to, std::int64_t count, double value) {
  push_(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) put(to, i, value);
  });
}

void FakeMath::expect(GpuStream* stream, GpuPlace from, std::int64_t count, double least,
                      double most, FaultCell fault) {
  push_(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = get(from, i, fault);
      if (!(x >= least && x <= most)) leave(fault);
    }
  });
}

void FakeMath::square_roots(GpuStream* stream, double* x, std::int64_t count) {
  push_(stream, [=] { std::transform(x, x + count, x, [](double y) { return std::sqrt(y); }); });
}

void FakeMath::clip_coefficient(GpuStream* stream, GpuPlace squares, double max_norm,
                                FaultCell fault) {
  push_(stream, [=] {
    put(squares, 0, std::min(1.0, max_norm / (std::sqrt(get(squares, 0, fault)) + 1e-6)));
  });
}

void FakeMath::add_squares(GpuStream* stream, GpuPlace from, std::int64_t count, double* to,
                           FaultCell fault) {
  push_(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) *to += std::pow(get(from, i, fault), 2);
  });
}

void FakeMath::adamw(GpuStream* stream, std::int64_t count, GpuPlace gradient, GpuPlace parameter,
                     GpuPlace first, GpuPlace second, GpuPlace master, const AdamStep& s,
                     FaultCell fault) {
  push_(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      const double g = get(gradient, i, fault);
      double p = get(master.memory != nullptr ? master : parameter, i, fault);
      p -= s.rate * s.decay * p;
      const double m = s.beta1 * get(first, i, fault) + (1 - s.beta1) * g;
      const double v = s.beta2 * get(second, i, fault) + (1 - s.beta2) * g * g;
      p -= s.rate * (m / s.correct1) / (std::sqrt(v / s.correct2) + s.epsilon);
      put(first, i, m);
      put(second, i, v);
      if (master.memory != nullptr) put(master, i, p);
      if (parameter.memory != nullptr) put(parameter, i, p);
    }
  });
}

void FakeMath::sgd(GpuStream* stream, std::int64_t count, GpuPlace gradient, GpuPlace parameter,
                   GpuPlace momenta, GpuPlace master, const SgdStep& s, FaultCell fault) {
  push_(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      double m = get(gradient, i, fault);
      if (momenta.memory != nullptr) m += s.momentum * get(momenta, i, fault);
      if (momenta.memory != nullptr) put(momenta, i, m);
      const double p = get(master.memory != nullptr ? master : parameter, i, fault) - s.rate * m;
      if (master.memory != nullptr) put(master, i, p);
      if (parameter.memory != nullptr) put(parameter, i, p);
    }
  });
}

void FakeMath::gemm(GpuStream* stream, bool wide, bool a_transposed, bool b_transposed,
                    std::int64_t m, std::int64_t n, std::int64_t k, const std::byte* a,
                    const std::byte* b, bool add, std::byte* c) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      const auto* x = reinterpret_cast<const Real*>(a);
      const auto* y = reinterpret_cast<const Real*>(b);
      auto* z = reinterpret_cast<Real*>(c);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          Real sum = add ? z[i * n + j] : Real(0);
          for (std::int64_t l = 0; l < k; ++l) {
            sum += (a_transposed ? x[l * m + i] : x[i * k + l]) *
                   (b_transposed ? y[j * k + l] : y[l * n + j]);
          }
          z[i * n + j] = sum;
        }
      }
    });
  });
}

void FakeMath::add_bias(GpuStream* stream, bool wide, GpuArray x, GpuArray bias) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      auto* to = reinterpret_cast<Real*>(x.memory);
      const auto* from = reinterpret_cast<const Real*>(bias.memory);
      for (std::int64_t i = 0; i < x.count; ++i) to[i] += from[i % bias.count];
    });
  });
}

void FakeMath::column_sums(GpuStream* stream, bool wide, GpuArray x, GpuArray sums) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      put_back(sums.memory, bias_gradient(values<Real>(x.memory, x.count), sums.count));
    });
  });
}

void FakeMath::tanh(GpuStream* stream, bool wide, GpuArray x) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      auto all = values<decltype(real)>(x.memory, x.count);
      activate(all);
      put_back(x.memory, all);
    });
  });
}

void FakeMath::tanh_gradient(GpuStream* stream, bool wide, GpuArray da, const std::byte* a) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      put_back(da.memory,
               activation_gradient(values<Real>(da.memory, da.count), values<Real>(a, da.count)));
    });
  });
}

void FakeMath::scale(GpuStream* stream, bool wide, GpuArray x, double factor) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      auto* to = reinterpret_cast<Real*>(x.memory);
      for (std::int64_t i = 0; i < x.count; ++i) to[i] *= static_cast<Real>(factor);
    });
  });
}

void FakeMath::add(GpuStream* stream, bool wide, GpuArray x, const std::byte* y) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      auto* to = reinterpret_cast<Real*>(x.memory);
      const auto* from = reinterpret_cast<const Real*>(y);
      for (std::int64_t i = 0; i < x.count; ++i) to[i] += from[i];
    });
  });
}

void FakeMath::round(GpuStream* stream, bool wide, GpuArray x, Dtype dtype) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      auto* to = reinterpret_cast<Real*>(x.memory);
      for (std::int64_t i = 0; i < x.count; ++i) {
        const auto value = static_cast<float>(to[i]);
        to[i] = static_cast<Real>(dtype == Dtype::bf16 ? to_float(to_bf16(value))
                                                       : to_float(to_fp16(value)));
      }
    });
  });
}

void FakeMath::embed(GpuStream* stream, bool wide, const std::byte* table, std::int64_t vocabulary,
                     std::int64_t width, const std::int64_t* ids, std::int64_t tokens, std::byte* h,
                     FaultCell fault) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      put_back(h, runtime::embed(values<decltype(real)>(table, vocabulary * width),
                                 ids_of(ids, tokens, vocabulary, fault), width));
    });
  });
}

void FakeMath::table_gradient(GpuStream* stream, bool wide, const std::byte* dh,
                              const std::int64_t* ids, std::int64_t tokens, std::int64_t vocabulary,
                              std::int64_t width, std::byte* table, FaultCell fault) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      put_back(table,
               runtime::table_gradient(values<decltype(real)>(dh, tokens * width),
                                       ids_of(ids, tokens, vocabulary, fault), vocabulary, width));
    });
  });
}

void FakeMath::cross_entropy(GpuStream* stream, bool wide, std::byte* logits,
                             const std::int64_t* labels, std::int64_t tokens,
                             std::int64_t vocabulary, double* loss, FaultCell fault) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      auto all = values<decltype(real)>(logits, tokens * vocabulary);
      *loss +=
          runtime::cross_entropy(all, labels_of(labels, tokens, vocabulary, fault), vocabulary);
      put_back(logits, all);
    });
  });
}

void FakeMath::log_sums(GpuStream* stream, bool wide, const std::byte* logits, std::int64_t tokens,
                        std::int64_t vocabulary, std::byte* sums) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      const auto all = values<Real>(logits, tokens * vocabulary);
      Values<Real> kept;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto row = all.begin() + t * vocabulary;
        const Real top = *std::max_element(row, row + vocabulary);
        Real sum = 0;
        for (auto x = row; x != row + vocabulary; ++x) sum += std::exp(*x - top);
        kept.push_back(top + std::log(sum));
      }
      put_back(sums, kept);
    });
  });
}

void FakeMath::cross_entropy_gradient(GpuStream* stream, bool wide, std::byte* logits,
                                      const std::byte* sums, const std::int64_t* labels,
                                      std::int64_t tokens, std::int64_t vocabulary,
                                      FaultCell fault) {
  push_(stream, [=] {
    with(wide, [&](auto real) {
      using Real = decltype(real);
      auto all = values<Real>(logits, tokens * vocabulary);
      const auto kept = values<Real>(sums, tokens);
      const auto list = labels_of(labels, tokens, vocabulary, fault);
      const auto ignored = std::count(list.begin(), list.end(), ignored_label);
      const Real weight = static_cast<Real>(tokens) / static_cast<Real>(tokens - ignored);
      for (std::int64_t i = 0; i < tokens * vocabulary; ++i) {
        const auto t = static_cast<std::size_t>(i / vocabulary);
        Real& x = all[static_cast<std::size_t>(i)];
        x = weight * (std::exp(x - kept[t]) - Real(list[t] == i % vocabulary ? 1 : 0));
        if (list[t] == ignored_label) x = 0;
      }
      put_back(logits, all);
    });
  });
}

}  // namespace stepcast::testing
