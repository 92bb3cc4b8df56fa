// Steps of optimizers and the clipping of gradients, as XLA calls them.

#include <cmath>

#include "handler.h"
#include "updates.h"

namespace flambeau {
namespace {

constexpr const char* kName = "flambeau's update";

using Doubles = ffi::Buffer<ffi::F64>;

// The arrays of a call: for each parameter as many as `of_each`, of which those that a step changes
// have a result each, in their order.
struct Call {
  ffi::RemainingArgs arguments;
  ffi::RemainingRets results;
  std::size_t of_each, changed;

  std::size_t count() const { return arguments.size() / of_each; }

  ffi::Error check() const {
    const bool fits = arguments.size() == count() * of_each && results.size() == count() * changed;
    if (fits) return ffi::Error::Success();
    return ffi::Error::InvalidArgument(
        std::string(kName) + ": takes " + std::to_string(of_each) +
        " arrays for each parameter and gives " + std::to_string(changed) + ", got " +
        std::to_string(arguments.size()) + " and " + std::to_string(results.size()));
  }

  // An array of this many elements.
  ffi::ErrorOr<const float*> argument(std::size_t place, std::size_t size) const {
    const auto found = arguments.get<Array>(place);
    if (found.has_error()) return ffi::Unexpected(found.error());
    if (found->element_count() == size) return found->typed_data();
    return ffi::Unexpected(unlike(place, found->element_count(), size));
  }

  ffi::ErrorOr<float*> result(std::size_t place, std::size_t size) const {
    auto found = results.get<Array>(place);
    if (found.has_error()) return ffi::Unexpected(found.error());
    if ((*found)->element_count() == size) return (*found)->typed_data();
    return ffi::Unexpected(unlike(place, (*found)->element_count(), size));
  }

  static ffi::Error unlike(std::size_t place, std::size_t found, std::size_t size) {
    return ffi::Error::InvalidArgument(std::string(kName) + ": array " + std::to_string(place) +
                                       " has " + std::to_string(found) + " elements instead of " +
                                       std::to_string(size));
  }

  ffi::ErrorOr<std::size_t> size(std::size_t param) const {
    const auto found = arguments.get<Array>(param * of_each);
    if (found.has_error()) return ffi::Unexpected(found.error());
    return found->element_count();
  }
};

// The value of an ErrorOr; its error is what the function around it returns.
#define FLAMBEAU_TAKE(name, expression)           \
  const auto name##_or = (expression);            \
  if (name##_or.has_error()) return name##_or.error(); \
  const auto name = *name##_or

ffi::Error numbers_of(const Doubles& numbers, std::size_t count) {
  if (numbers.element_count() == count) return ffi::Error::Success();
  return ffi::Error::InvalidArgument(std::string(kName) + ": takes " + std::to_string(count) +
                                     " numbers, got " + std::to_string(numbers.element_count()));
}

// For each parameter: itself, its gradient, how many steps it has made, and the two averages.
ffi::Error adam_of(ffi::ThreadPool threads, Doubles numbers, bool decoupled, bool maximize,
                   ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  const Call call{arguments, results, 5, 4};
  if (ffi::Error error = call.check(); error.failure()) return error;
  if (ffi::Error error = numbers_of(numbers, 5); error.failure()) return error;
  const double* const given = numbers.typed_data();
  const double beta1 = given[1], beta2 = given[2];
  return run_safely(kName, [&]() -> ffi::Error {
    Sizes sizes;
    std::vector<AdamNumbers> of_each;
    std::vector<AdamArrays> arrays;
    for (std::size_t each = 0; each < call.count(); ++each) {
      FLAMBEAU_TAKE(size, call.size(each));
      const std::size_t at = 5 * each, to = 4 * each;
      FLAMBEAU_TAKE(param, call.argument(at, size));
      FLAMBEAU_TAKE(grad, call.argument(at + 1, size));
      FLAMBEAU_TAKE(steps, call.argument(at + 2, 1));
      FLAMBEAU_TAKE(average, call.argument(at + 3, size));
      FLAMBEAU_TAKE(square, call.argument(at + 4, size));
      FLAMBEAU_TAKE(new_param, call.result(to, size));
      FLAMBEAU_TAKE(new_steps, call.result(to + 1, 1));
      FLAMBEAU_TAKE(new_average, call.result(to + 2, size));
      FLAMBEAU_TAKE(new_square, call.result(to + 3, size));
      const float count = *steps + 1;
      *new_steps = count;
      sizes.push_back(static_cast<std::int64_t>(size));
      arrays.push_back({param, grad, average, square, new_param, new_average, new_square});
      AdamNumbers own;
      own.rate = static_cast<float>(given[0]);
      own.epsilon = static_cast<float>(given[3]);
      own.decay = static_cast<float>(given[4]);
      own.beta1 = static_cast<float>(beta1);
      own.rest1 = static_cast<float>(1 - beta1);
      own.beta2 = static_cast<float>(beta2);
      own.rest2 = static_cast<float>(1 - beta2);
      own.scale1 = static_cast<float>(1 / (1 - std::pow(beta1, count)));
      own.scale2 = static_cast<float>(1 / (1 - std::pow(beta2, count)));
      own.decoupled = decoupled;
      own.maximize = maximize;
      of_each.push_back(own);
    }
    adam(sizes, of_each, arrays, pool_of(threads));
    return ffi::Error::Success();
  });
}

// For each parameter: itself, its gradient, and with momentum its buffer.
ffi::Error sgd_of(ffi::ThreadPool threads, Doubles numbers, bool has_buffers, bool nesterov,
                  bool maximize, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  const std::size_t changed = has_buffers ? 2 : 1;
  const Call call{arguments, results, changed + 1, changed};
  if (ffi::Error error = call.check(); error.failure()) return error;
  if (ffi::Error error = numbers_of(numbers, 3); error.failure()) return error;
  const double* const given = numbers.typed_data();
  const SgdNumbers own{static_cast<float>(given[0]), static_cast<float>(given[1]),
                       static_cast<float>(given[2]), nesterov, maximize};
  return run_safely(kName, [&]() -> ffi::Error {
    Sizes sizes;
    std::vector<SgdArrays> arrays;
    for (std::size_t each = 0; each < call.count(); ++each) {
      FLAMBEAU_TAKE(size, call.size(each));
      const std::size_t at = call.of_each * each, to = changed * each;
      FLAMBEAU_TAKE(param, call.argument(at, size));
      FLAMBEAU_TAKE(grad, call.argument(at + 1, size));
      FLAMBEAU_TAKE(new_param, call.result(to, size));
      SgdArrays found{param, grad, nullptr, new_param, nullptr};
      if (has_buffers) {
        FLAMBEAU_TAKE(buffer, call.argument(at + 2, size));
        FLAMBEAU_TAKE(new_buffer, call.result(to + 1, size));
        found.buffer = buffer;
        found.new_buffer = new_buffer;
      }
      sizes.push_back(static_cast<std::int64_t>(size));
      arrays.push_back(found);
    }
    sgd(sizes, own, arrays, pool_of(threads));
    return ffi::Error::Success();
  });
}

// The common norm of all arrays, and these times the greatest norm by it where that is less than 1.
ffi::Error clip_of(ffi::ThreadPool threads, Doubles greatest, ffi::Result<Array> total, double tiny,
                   ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  const Call call{arguments, results, 1, 1};
  if (ffi::Error error = call.check(); error.failure()) return error;
  if (ffi::Error error = numbers_of(greatest, 1); error.failure()) return error;
  return run_safely(kName, [&]() -> ffi::Error {
    Sizes sizes;
    std::vector<const float*> from;
    std::vector<float*> to;
    for (std::size_t each = 0; each < call.count(); ++each) {
      FLAMBEAU_TAKE(size, call.size(each));
      FLAMBEAU_TAKE(array, call.argument(each, size));
      FLAMBEAU_TAKE(result, call.result(each, size));
      sizes.push_back(static_cast<std::int64_t>(size));
      from.push_back(array);
      to.push_back(result);
    }
    const Pool pool = pool_of(threads);
    const float found = norm(sizes, from, pool);
    *total->typed_data() = found;
    const double ratio = *greatest.typed_data() / (found + tiny);
    // A norm that is no number is kept.
    scale(sizes, ratio >= 1 ? 1.0f : static_cast<float>(ratio), from, to, pool);
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_adam, flambeau::adam_of,
                              flambeau::ffi::Ffi::Bind()
                                  .Ctx<flambeau::ffi::ThreadPool>()
                                  .Arg<flambeau::Doubles>()
                                  .Attr<bool>("decoupled")
                                  .Attr<bool>("maximize")
                                  .RemainingArgs()
                                  .RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_sgd, flambeau::sgd_of,
                              flambeau::ffi::Ffi::Bind()
                                  .Ctx<flambeau::ffi::ThreadPool>()
                                  .Arg<flambeau::Doubles>()
                                  .Attr<bool>("has_buffers")
                                  .Attr<bool>("nesterov")
                                  .Attr<bool>("maximize")
                                  .RemainingArgs()
                                  .RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_clip, flambeau::clip_of,
                              flambeau::ffi::Ffi::Bind()
                                  .Ctx<flambeau::ffi::ThreadPool>()
                                  .Arg<flambeau::Doubles>()
                                  .Ret<flambeau::Array>()
                                  .Attr<double>("tiny")
                                  .RemainingArgs()
                                  .RemainingRets());

#pragma GCC visibility pop
