// What throws inside of a parallel region, where nothing catches it and the process would end.
#pragma once
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>

namespace kernels {

// The first failure by number, so that the message does not depend on the threads; want of memory stays what it is.
class Failures {
  public:
    template <class F>
    void guard(int64_t number, F&& work) {
        try {
            work();
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (number < number_) number_ = number, failure_ = std::current_exception();
        }
    }
    void raise() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    std::mutex mutex_;
    int64_t number_ = std::numeric_limits<int64_t>::max();
    std::exception_ptr failure_;
};

struct NoScratch {};

// Call `call(i, scratch)` for i from 0 to below `count`, `chunk` at a time, with scratch memory of each thread's own
// that may grow; what a call throws is thrown after the last.
template <class Scratch = NoScratch, class Call>
void for_each(int64_t count, int64_t chunk, int threads, const Call& call) {
    Failures failures;
#pragma omp parallel num_threads(threads) if (count > chunk)
    {
        Scratch scratch;
#pragma omp for schedule(dynamic, chunk)
        for (int64_t i = 0; i < count; ++i) failures.guard(i, [&] { call(i, scratch); });
    }
    failures.raise();
}

}  // namespace kernels
