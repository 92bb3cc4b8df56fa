// Attention, as XLA calls it.

#include <algorithm>
#include <limits>

#include "attention.h"
#include "handler.h"

namespace flambeau {
namespace {

constexpr const char* kName = "flambeau's attention";

using Rest = ffi::RemainingArgs;

ffi::Error refusal(const std::string& reason) {
  return ffi::Error::InvalidArgument(std::string(kName) + ": " + reason);
}

// Whether these are the dimensions of the problems, with two more.
bool is_like(Dimensions dimensions, Dimensions problems, std::int64_t rows, std::int64_t columns) {
  return dimensions.size() == problems.size() &&
         std::equal(problems.begin(), problems.end() - 2, dimensions.begin()) &&
         dimensions[problems.size() - 2] == rows && dimensions[problems.size() - 1] == columns;
}

// Where the mask of each problem begins, in an array that may have size 1 in place of any other.
ffi::Error mask_of(const ffi::AnyBuffer& array, Dimensions problems, Attention& shape) {
  const Dimensions sizes = array.dimensions();
  const std::size_t rank = problems.size();
  bool fits = sizes.size() == rank;
  for (std::size_t each = 0; fits && each < rank; ++each) {
    const std::int64_t whole = each == rank - 1   ? shape.keys
                               : each == rank - 2 ? shape.queries
                                                  : problems[each];
    fits = sizes[each] == 1 || sizes[each] == whole;
  }
  if (!fits) {
    return refusal("a mask " + text_of(sizes) + " does not fit queries " + text_of(problems) +
                   " and " + std::to_string(shape.keys) + " keys");
  }
  Mask& mask = shape.mask;
  if (array.element_type() == ffi::PRED) {
    mask.seen = static_cast<const bool*>(array.untyped_data());
  } else if (array.element_type() == ffi::F32) {
    mask.added = static_cast<const float*>(array.untyped_data());
  } else {
    return refusal("a mask is of bool or float32");
  }
  mask.key_step = sizes[rank - 1] == 1 ? 0 : 1;
  mask.query_step = sizes[rank - 2] == 1 ? 0 : sizes[rank - 1];
  for (std::int64_t problem = 0; problem < shape.problems; ++problem) {
    std::int64_t rest = problem, begin = 0, step = sizes[rank - 1] * sizes[rank - 2];
    for (std::size_t each = rank - 2; each-- > 0;) {
      if (sizes[each] > 1) begin += rest % problems[each] * step;
      rest /= problems[each];
      step *= sizes[each];
    }
    mask.begins.push_back(begin);
  }
  return ffi::Error::Success();
}

ffi::Error shape_of(Dimensions queries, Dimensions keys, Dimensions values, bool is_causal,
                    float scale, Attention& shape) {
  const std::size_t rank = queries.size();
  if (rank < 2 || keys.size() != rank || values.size() != rank) {
    return refusal("takes arrays of at least two dimensions, as many each");
  }
  shape.problems = 1;
  for (std::size_t each = 0; each < rank - 2; ++each) shape.problems *= queries[each];
  shape.queries = queries[rank - 2];
  shape.keys = keys[rank - 2];
  shape.size = queries[rank - 1];
  shape.value_size = values[rank - 1];
  shape.is_causal = is_causal;
  shape.scale = scale;
  if (!is_like(keys, queries, shape.keys, shape.size) ||
      !is_like(values, queries, shape.keys, shape.value_size)) {
    return refusal("shapes do not match: queries " + text_of(queries) + ", keys " + text_of(keys) +
                   ", values " + text_of(values));
  }
  return ffi::Error::Success();
}

// The problem that arrays and an optional mask state.
ffi::Error problem_of(Array queries, Array keys, Array values, Rest rest, bool is_causal,
                      float scale, Attention& shape) {
  ffi::Error error = shape_of(queries.dimensions(), keys.dimensions(), values.dimensions(),
                              is_causal, scale, shape);
  if (error.failure() || rest.empty()) return error;
  if (rest.size() > 1) return refusal("takes one mask");
  const auto mask = rest.get<ffi::AnyBuffer>(0);
  return mask.has_error() ? mask.error() : mask_of(*mask, queries.dimensions(), shape);
}

bool are_sums(Dimensions greatest, Dimensions total, Dimensions queries) {
  const auto is_one = [&](Dimensions each) {
    return each.size() == queries.size() - 1 &&
           std::equal(each.begin(), each.end(), queries.begin());
  };
  return is_one(greatest) && is_one(total);
}

void fill_with_zeros(Result result) {
  std::fill_n(result->typed_data(), result->element_count(), 0.0f);
}

ffi::Error results_of(ffi::ThreadPool threads, Array queries, Array keys, Array values, Rest rest,
                      bool is_causal, float scale, Result results, Result greatest, Result total) {
  Attention shape;
  ffi::Error error = problem_of(queries, keys, values, rest, is_causal, scale, shape);
  if (error.failure()) return error;
  if (!is_like(results->dimensions(), queries.dimensions(), shape.queries, shape.value_size) ||
      !are_sums(greatest->dimensions(), total->dimensions(), queries.dimensions())) {
    return refusal("results " + text_of(results->dimensions()) + " do not match queries " +
                   text_of(queries.dimensions()));
  }
  if (greatest->element_count() == 0) return ffi::Error::Success();
  if (shape.keys == 0) {
    for (Result each : {results, total}) fill_with_zeros(each);
    std::fill_n(greatest->typed_data(), greatest->element_count(),
                -std::numeric_limits<float>::infinity());
    return ffi::Error::Success();
  }
  return run_safely(kName, [&] {
    attend(shape, {queries.typed_data(), keys.typed_data(), values.typed_data()},
           results->typed_data(), {greatest->typed_data(), total->typed_data()},
           pool_of(threads));
  });
}

ffi::Error gradients_of(ffi::ThreadPool threads, Array cotangents, Array queries, Array keys,
                        Array values, Array results, Array greatest, Array total, Rest rest,
                        bool is_causal, float scale, Result by_queries, Result by_keys,
                        Result by_values) {
  Attention shape;
  ffi::Error error = problem_of(queries, keys, values, rest, is_causal, scale, shape);
  if (error.failure()) return error;
  const Dimensions like = queries.dimensions();
  if (!is_like(cotangents.dimensions(), like, shape.queries, shape.value_size) ||
      !is_like(results.dimensions(), like, shape.queries, shape.value_size) ||
      !is_like(by_queries->dimensions(), like, shape.queries, shape.size) ||
      !is_like(by_keys->dimensions(), like, shape.keys, shape.size) ||
      !is_like(by_values->dimensions(), like, shape.keys, shape.value_size) ||
      !are_sums(greatest.dimensions(), total.dimensions(), like)) {
    return refusal("cotangents " + text_of(cotangents.dimensions()) + ", results or gradients do " +
                   "not match queries " + text_of(like));
  }
  if (greatest.element_count() == 0 || shape.keys == 0) {
    for (Result each : {by_queries, by_keys, by_values}) fill_with_zeros(each);
    return ffi::Error::Success();
  }
  return run_safely(kName, [&] {
    attend_gradients(shape, {queries.typed_data(), keys.typed_data(), values.typed_data()},
                     cotangents.typed_data(), results.typed_data(),
                     {greatest.typed_data(), total.typed_data()},
                     {by_queries->typed_data(), by_keys->typed_data(), by_values->typed_data()},
                     pool_of(threads));
  });
}

template <int kArrays>
auto with_problem() {
  return with_results<3>(with_arrays<kArrays>(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>())
                             .RemainingArgs()
                             .template Attr<bool>("is_causal")
                             .template Attr<float>("scale"));
}

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_attention, flambeau::results_of,
                              flambeau::with_problem<3>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_attention_gradients, flambeau::gradients_of,
                              flambeau::with_problem<7>());

#pragma GCC visibility pop
