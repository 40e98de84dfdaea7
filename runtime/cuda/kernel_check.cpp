#include "runtime/cuda/kernel_check.hpp"

#include <cmath>
#include <functional>
#include <random>

#include "runtime/numbers.hpp"
#include "runtime/train/mlp.hpp"

namespace stepcast::runtime {
namespace {

using Numbers = std::vector<double>;

// Odd sizes, so that no tile is whole.
constexpr std::int64_t rows = 67;
constexpr std::int64_t columns = 45;
constexpr std::int64_t inner = 131;

double accepted_for(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return 1e-13;
    case Dtype::bf16: return 0x1p-8;
    case Dtype::fp16: return 0x1p-11;
    default: return 1e-5;
  }
}

class Check {
 public:
  explicit Check(const GpuTables& tables)
      : gpu_(*tables.gpu), math_(*tables.math), stream_(gpu_.new_stream(0)) {
    fault_.cell = reinterpret_cast<std::int64_t*>(room(8));
    fault_.number = 1;
    gpu_.fill(stream_, reinterpret_cast<std::byte*>(fault_.cell), 0, 8);
  }
  ~Check() {
    try {
      gpu_.synchronize(stream_);
      for (std::byte* memory : rooms_) gpu_.release(memory);
      gpu_.end_stream(stream_);
    } catch (const GpuError&) {
      // The device is broken, and why has been said.
    }
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  std::vector<KernelCheck> all() {
    for (const bool wide : {true, false}) {
      products(wide);
      elementwise(wide);
      tokens(wide);
    }
    for (const Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::bf16, Dtype::fp16}) moves(dtype);
    adam();
    sgd();
    clipping();
    expectations();
    poison();
    return std::move(done_);
  }

 private:
  std::byte* room(Bytes size) {
    rooms_.push_back(gpu_.allocate(size));
    return rooms_.back();
  }
  Numbers random(std::int64_t count) {
    std::uniform_real_distribution<double> between(-1, 1);
    Numbers list(static_cast<std::size_t>(count));
    for (double& x : list) x = between(random_);
    return list;
  }
  // The numbers on the device, in the dtype; `list` becomes what the dtype holds of them.
  GpuPlace put(Numbers& list, Dtype dtype) {
    const Bytes size = static_cast<Bytes>(list.size()) * bytes_per_element(dtype);
    std::vector<std::byte> host(static_cast<std::size_t>(size));
    visit(dtype, [&](auto stored) {
      using Stored = decltype(stored);
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        store<Stored>(host.data(), at, static_cast<typename Number<Stored>::Real>(list[i]));
        list[i] = static_cast<double>(load<Stored>(host.data(), at));
      }
    });
    std::byte* memory = room(size);
    gpu_.copy(stream_, memory, host.data(), size);
    gpu_.synchronize(stream_);
    return {memory, dtype, 0};
  }
  Numbers get(GpuPlace place, std::size_t count) {
    Numbers list(count);
    const Bytes size = static_cast<Bytes>(count) * bytes_per_element(place.dtype);
    std::vector<std::byte> host(static_cast<std::size_t>(size));
    gpu_.copy(stream_, host.data(), place.memory, size);
    gpu_.synchronize(stream_);
    visit(place.dtype, [&](auto stored) {
      using Stored = decltype(stored);
      for (std::size_t i = 0; i < count; ++i) {
        list[i] = static_cast<double>(load<Stored>(host.data(), static_cast<std::int64_t>(i)));
      }
    });
    return list;
  }
  void note(const std::string& name, Dtype dtype, const Numbers& device, const Numbers& host) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < host.size(); ++i) {
      difference += (device[i] - host[i]) * (device[i] - host[i]);
      norm += host[i] * host[i];
    }
    double error = std::sqrt(difference / norm);
    if (std::isnan(error)) error = HUGE_VAL;
    done_.push_back({name + ", " + std::string(to_string(dtype)), error, accepted_for(dtype)});
  }
  GpuArray array(GpuPlace place, std::size_t count) const {
    return {place.memory, static_cast<std::int64_t>(count)};
  }

  void products(bool wide) {
    const Dtype dtype = wide ? Dtype::fp64 : Dtype::fp32;
    for (int form = 0; form < 5; ++form) {
      const bool a_transposed = form == 1 || form == 3;
      const bool b_transposed = form == 2 || form == 3;
      const bool add = form == 4;
      Numbers a = random(rows * inner);
      Numbers b = random(inner * columns);
      Numbers c = random(rows * columns);
      const GpuPlace at_a = put(a, dtype);
      const GpuPlace at_b = put(b, dtype);
      const GpuPlace at_c = put(c, dtype);
      math_.gemm(stream_, wide, a_transposed, b_transposed, rows, columns, inner, at_a.memory,
                 at_b.memory, add, at_c.memory);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = add ? c[static_cast<std::size_t>(i * columns + j)] : 0;
          for (std::int64_t l = 0; l < inner; ++l) {
            const auto x = static_cast<std::size_t>(a_transposed ? l * rows + i : i * inner + l);
            const auto y = static_cast<std::size_t>(b_transposed ? j * inner + l : l * columns + j);
            sum += a[x] * b[y];
          }
          c[static_cast<std::size_t>(i * columns + j)] = sum;
        }
      }
      const std::string name = std::string("gemm") + (a_transposed ? ", a transposed" : "") +
                               (b_transposed ? ", b transposed" : "") + (add ? ", added" : "");
      note(name, dtype, get(at_c, c.size()), c);
    }
  }

  // One call that changes x in place.
  void in_place(const std::string& name, bool wide, const std::function<void(GpuArray)>& on_device,
                const std::function<void(Numbers&)>& on_host) {
    const Dtype dtype = wide ? Dtype::fp64 : Dtype::fp32;
    Numbers x = random(rows * columns);
    const GpuPlace at = put(x, dtype);
    on_device(array(at, x.size()));
    on_host(x);
    note(name, dtype, get(at, x.size()), x);
  }

  void elementwise(bool wide) {
    const Dtype dtype = wide ? Dtype::fp64 : Dtype::fp32;
    Numbers y = random(rows * columns);
    Numbers bias = random(columns);
    const GpuPlace at_y = put(y, dtype);
    const GpuPlace at_bias = put(bias, dtype);
    in_place(
        "tanh", wide, [&](GpuArray x) { math_.tanh(stream_, wide, x); },
        [](Numbers& x) { activate(x); });
    in_place(
        "tanh gradient", wide,
        [&](GpuArray x) { math_.tanh_gradient(stream_, wide, x, at_y.memory); },
        [&](Numbers& x) { x = activation_gradient(x, y); });
    in_place(
        "scale", wide, [&](GpuArray x) { math_.scale(stream_, wide, x, 0.3); },
        [](Numbers& x) {
          for (double& value : x) value *= 0.3;
        });
    in_place(
        "add", wide, [&](GpuArray x) { math_.add(stream_, wide, x, at_y.memory); },
        [&](Numbers& x) {
          for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
        });
    in_place(
        "add bias", wide,
        [&](GpuArray x) { math_.add_bias(stream_, wide, x, array(at_bias, bias.size())); },
        [&](Numbers& x) {
          for (std::size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
        });
    in_place(
        "round to bf16", wide, [&](GpuArray x) { math_.round(stream_, wide, x, Dtype::bf16); },
        [](Numbers& x) {
          for (double& value : x) value = to_float(to_bf16(static_cast<float>(value)));
        });
    Numbers sums(columns);
    const GpuPlace at_sums = put(sums, dtype);
    math_.column_sums(stream_, wide, array(at_y, y.size()), array(at_sums, sums.size()));
    note("column sums", dtype, get(at_sums, sums.size()), bias_gradient(y, columns));
  }

  void tokens(bool wide) {
    const Dtype dtype = wide ? Dtype::fp64 : Dtype::fp32;
    std::vector<std::int64_t> ids;
    for (std::int64_t t = 0; t < rows; ++t) ids.push_back(t * 7 % columns);
    const auto at_ids = reinterpret_cast<std::int64_t*>(room(rows * 8));
    gpu_.copy(stream_, reinterpret_cast<std::byte*>(at_ids),
              reinterpret_cast<const std::byte*>(ids.data()), rows * 8);
    constexpr std::int64_t width = 19;
    Numbers table = random(columns * width);
    Numbers h(static_cast<std::size_t>(rows * width), 1);
    const GpuPlace at_table = put(table, dtype);
    const GpuPlace at_h = put(h, dtype);
    math_.embed(stream_, wide, at_table.memory, columns, width, at_ids, rows, at_h.memory, fault_);
    const Numbers wanted = embed(table, ids, width);
    note("embed", dtype, get(at_h, h.size()), wanted);
    math_.table_gradient(stream_, wide, at_h.memory, at_ids, rows, columns, width, at_table.memory,
                         fault_);
    note("table gradient", dtype, get(at_table, table.size()),
         table_gradient(wanted, ids, columns, width));
    Numbers logits = random(rows * columns);
    const GpuPlace at_logits = put(logits, dtype);
    auto* at_loss = reinterpret_cast<double*>(room(8));
    gpu_.fill(stream_, reinterpret_cast<std::byte*>(at_loss), 0, 8);
    math_.cross_entropy(stream_, wide, at_logits.memory, at_ids, rows, columns, at_loss, fault_);
    const double loss = cross_entropy(logits, ids, columns);
    note("softmax and cross-entropy", dtype, get(at_logits, logits.size()), logits);
    note("loss", dtype, get({reinterpret_cast<std::byte*>(at_loss), Dtype::fp64, 0}, 1), {loss});
    losses(wide, ids);
  }

  // The loss in two calls, and both with labels that do not count.
  void losses(bool wide, std::vector<std::int64_t> labels) {
    const Dtype dtype = wide ? Dtype::fp64 : Dtype::fp32;
    labels[3] = labels[rows - 1] = ignored_label;
    const auto at_labels = reinterpret_cast<std::int64_t*>(room(rows * 8));
    gpu_.copy(stream_, reinterpret_cast<std::byte*>(at_labels),
              reinterpret_cast<const std::byte*>(labels.data()), rows * 8);
    Numbers logits = random(rows * columns);
    const GpuPlace whole = put(logits, dtype);
    const GpuPlace halved = put(logits, dtype);
    Numbers sums;
    for (std::int64_t t = 0; t < rows; ++t) {
      double sum = 0;
      for (std::int64_t v = 0; v < columns; ++v) {
        sum += std::exp(logits[static_cast<std::size_t>(t * columns + v)]);
      }
      sums.push_back(std::log(sum));
    }
    Numbers nothing(sums.size(), 1);
    const GpuPlace at_sums = put(nothing, dtype);
    math_.log_sums(stream_, wide, halved.memory, rows, columns, at_sums.memory);
    note("log of the sum of exp", dtype, get(at_sums, sums.size()), sums);
    math_.cross_entropy_gradient(stream_, wide, halved.memory, at_sums.memory, at_labels, rows,
                                 columns, fault_);
    auto* at_loss = reinterpret_cast<double*>(room(8));
    gpu_.fill(stream_, reinterpret_cast<std::byte*>(at_loss), 0, 8);
    math_.cross_entropy(stream_, wide, whole.memory, at_labels, rows, columns, at_loss, fault_);
    const double loss = cross_entropy(logits, labels, columns);
    note("cross-entropy in two calls, ignored labels", dtype, get(halved, logits.size()), logits);
    note("cross-entropy, ignored labels", dtype, get(whole, logits.size()), logits);
    note("loss, ignored labels", dtype,
         get({reinterpret_cast<std::byte*>(at_loss), Dtype::fp64, 0}, 1), {loss});
  }

  void moves(Dtype dtype) {
    Numbers from = random(1000);
    Numbers to = random(1000);
    const GpuPlace at_from = put(from, Dtype::fp32);
    const GpuPlace at_to = put(to, dtype);
    math_.move(stream_, at_from, at_to, 1000, 0.25, true, fault_);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += 0.25 * from[i];
    note("move, scaled and added to", dtype, get(at_to, to.size()), to);
    double squares = 0;
    const Numbers held = get(at_to, to.size());
    for (const double x : held) squares += x * x;
    auto* at_sum = reinterpret_cast<double*>(room(8));
    gpu_.fill(stream_, reinterpret_cast<std::byte*>(at_sum), 0, 8);
    math_.add_squares(stream_, at_to, 1000, at_sum, fault_);
    note("sum of squares of " + std::string(to_string(dtype)), Dtype::fp64,
         get({reinterpret_cast<std::byte*>(at_sum), Dtype::fp64, 0}, 1), {squares});
  }

  void adam() {
    const AdamStep s{0.01, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05};
    Numbers g = random(500);
    Numbers p = random(500);
    Numbers m = random(500);
    Numbers v = random(500);
    for (double& x : v) x = std::abs(x);
    const GpuPlace at_g = put(g, Dtype::fp32);
    const GpuPlace at_p = put(p, Dtype::fp64);
    const GpuPlace at_m = put(m, Dtype::fp64);
    const GpuPlace at_v = put(v, Dtype::fp64);
    math_.adamw(stream_, 500, at_g, at_p, at_m, at_v, {}, s, fault_);
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] -= s.rate * s.decay * p[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * g[i];
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * g[i] * g[i];
      p[i] -= s.rate * (m[i] / s.correct1) / (std::sqrt(v[i] / s.correct2) + s.epsilon);
    }
    note("adamw, parameters", Dtype::fp64, get(at_p, p.size()), p);
    note("adamw, second moments", Dtype::fp64, get(at_v, v.size()), v);
  }

  void sgd() {
    const SgdStep s{0.01, 0.9};
    Numbers g = random(500);
    Numbers p = random(500);
    Numbers m = random(500);
    const GpuPlace at_g = put(g, Dtype::fp32);
    const GpuPlace at_p = put(p, Dtype::fp64);
    const GpuPlace at_m = put(m, Dtype::fp64);
    math_.sgd(stream_, 500, at_g, at_p, at_m, {}, s, fault_);
    math_.sgd(stream_, 500, at_g, {}, {}, at_p, s, fault_);  // a master copy, without momenta
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = s.momentum * m[i] + g[i];
      p[i] -= s.rate * m[i];
      p[i] -= s.rate * g[i];
    }
    note("sgd, parameters", Dtype::fp64, get(at_p, p.size()), p);
    note("sgd, momenta", Dtype::fp64, get(at_m, m.size()), m);
  }

  // 3, 4 -> norm 5, clipped to 2; and what is below stays.
  void clipping() {
    Numbers squares{9, 16};
    const GpuPlace at = put(squares, Dtype::fp64);
    math_.square_roots(stream_, reinterpret_cast<double*>(at.memory), 2);
    note("square roots", Dtype::fp64, get(at, 2), {3, 4});
    Numbers sum{25, 1};
    const GpuPlace high = put(sum, Dtype::fp32);
    const GpuPlace low{high.memory, Dtype::fp32, 1};
    math_.clip_coefficient(stream_, high, 2, fault_);
    math_.clip_coefficient(stream_, low, 2, fault_);
    note("clip coefficients", Dtype::fp32, get(high, 2), {2 / (5 + 1e-6), 1});
    Numbers gradient{10, 20};
    const GpuPlace at_gradient = put(gradient, Dtype::fp32);
    math_.move(stream_, at_gradient, at_gradient, 2, {0.5, high}, false, fault_);
    note("move times a number on the device", Dtype::fp32, get(at_gradient, 2),
         {5 * 2 / (5 + 1e-6), 10 * 2 / (5 + 1e-6)});
    math_.set(stream_, {at_gradient.memory, Dtype::fp32, 1}, 1, 7);
    note("set", Dtype::fp32, get(at_gradient, 2), {5 * 2 / (5 + 1e-6), 7});
  }

  // What lies outside is found, what lies on the edge is not.
  void expectations() {
    const auto cell = reinterpret_cast<std::int64_t*>(room(8));
    const GpuPlace at_cell{reinterpret_cast<std::byte*>(cell), Dtype::int64, 0};
    gpu_.fill(stream_, at_cell.memory, 0, 8);
    Numbers x{1, 2, 3};
    const GpuPlace at = put(x, Dtype::int32);
    math_.expect(stream_, at, 3, 1, 3, {cell, 2});
    const double before = get(at_cell, 1)[0];
    math_.expect(stream_, at, 3, 1, 2, {cell, 3});
    const double after = get(at_cell, 1)[0];
    done_.push_back(
        {"a number outside its bounds is found", before == 0 && after == 3 ? 0.0 : 1.0, 0});
  }

  // Nothing above has found poison; one element of it is found.
  void poison() {
    const GpuPlace cell{reinterpret_cast<std::byte*>(fault_.cell), Dtype::int64, 0};
    const double before = get(cell, 1)[0];
    Numbers x(64, 1);
    const GpuPlace at = put(x, Dtype::fp32);
    gpu_.fill(stream_, at.memory + 4 * 63, poison_byte, 4);
    math_.move(stream_, at, at, 64, 1, false, fault_);
    const double after = get(cell, 1)[0];
    done_.push_back({"poison is found where it is", before == 0 && after == 1 ? 0.0 : 1.0, 0});
  }

  Gpu& gpu_;
  GpuMath& math_;
  GpuStream* stream_;
  FaultCell fault_;
  std::mt19937_64 random_{7};
  std::vector<std::byte*> rooms_;
  std::vector<KernelCheck> done_;
};

}  // namespace

std::vector<KernelCheck> check_kernels(const GpuTables& tables) { return Check(tables).all(); }

}  // namespace stepcast::runtime
