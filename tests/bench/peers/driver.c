/* Runs peer() on records of PEER_IN numbers; answers PEER_OUT numbers and the instructions it took. */
#include "peer.h"
#include "sm_bench.h"

static peer_real in[PEER_IN], out[PEER_OUT];

int app(void) {
  while (io_read(in, sizeof in) == (int)sizeof in) {
    count_begin();
    peer(in, out);
    const uint32_t count = count_end();
    io_write(out, sizeof out);
    io_write(&count, sizeof count);
  }
  return 0;
}
