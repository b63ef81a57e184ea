/* The store under coverage-guided input, on memory that loses power, fails, lies, wears, and reads differently each time.
 *
 * Whatever happens, a schedule in use is whole at the start that chose it, and one that was put into use. On memory that
 * only loses power and fails there is always one once there was one, counters and windows never go back, and no
 * timestamp that was reserved lies behind the next start's window. */
#include <stdlib.h>
#include <string.h>

#include "flash.h"
#include "sm_sha256.h"
#include "sm_store.h"

#define BLOBS 4U
#define SLOT 512U

typedef struct {
  const uint8_t *at;
  size_t left;
} input;

static uint8_t next(input *in) {
  if (in->left == 0U) {
    return 0;
  }
  in->left--;
  return *in->at++;
}

static const uint32_t blob_sizes[BLOBS] = {8, 40, 256, SLOT};
static uint8_t blobs[BLOBS][SLOT];
static uint8_t names[BLOBS][SM_DIGEST];
static sm_store store;
static bool spoilt;       /* memory did more than lose power, fail and lie */
static bool uncertain;    /* cells read differently each time */
static bool had_schedule; /* one was put into use */
static uint64_t counter;
static uint64_t reserved; /* the latest timestamp that may have been used */

static void prepare(void) {
  for (unsigned i = 0; i < BLOBS; i++) {
    for (uint32_t j = 0; j < SLOT; j++) {
      blobs[i][j] = (uint8_t)(j * (i + 3U) + (j >> 3));
    }
    sm_sha256 sha;
    sm_sha256_start(&sha);
    sm_sha256_add(&sha, blobs[i], blob_sizes[i]);
    sm_sha256_end(&sha, names[i]);
  }
}

/* What a start finds. */
static void check(bool fresh) {
  const uint8_t *blob = NULL;
  size_t size = 0;
  if (sm_store_schedule(&store, &blob, &size) == 0) {
    bool known = false;
    for (unsigned i = 0; i < BLOBS; i++) {
      known = known || (size == blob_sizes[i] && memcmp(blob, blobs[i], size) == 0);
    }
    if (!known && (!spoilt || (fresh && !uncertain))) {
      abort();
    }
    if (size == 0U || size > SLOT) {
      abort();
    }
  } else if (had_schedule && !spoilt && !uncertain) {
    abort();
  }
  if (store.next_record > store.log_records || store.log_records > FLASH_ROOM / sizeof(sm_store_record)) {
    abort();
  }
  if (!spoilt && !uncertain && (store.current.counter < counter || sm_store_window_start(&store) < reserved)) {
    abort();
  }
  counter = store.current.counter;
}

static void reset(void) {
  sm_store_open(&store);
  check(true);
  const int erased = sm_store_erase_ahead(&store);
  (void)erased;
}

/* A whole upload, as sm_upload.c makes it. */
static void put(input *in) {
  const unsigned which = next(in) % BLOBS;
  port_region slot = PORT_REGIONS;
  if (sm_store_begin(&store, store.current.counter + next(in) % 3U, &slot) != 0) {
    return;
  }
  if (slot > PORT_SLOT_B || slot == (port_region)store.current.active) {
    abort();
  }
  const uint32_t size = (blob_sizes[which] + 7U) / 8U * 8U;
  const bool half = next(in) % 8U == 0U;
  if (port_region_write(slot, 0, blobs[which], half ? size / 16U * 8U : size) != 0 || half) {
    return;
  }
  uint8_t digest[SM_DIGEST];
  sm_sha256 sha;
  sm_sha256_start(&sha);
  sm_sha256_add(&sha, port_region_read(slot), blob_sizes[which]);
  sm_sha256_end(&sha, digest);
  if (memcmp(digest, names[which], SM_DIGEST) == 0 && sm_store_erase_ahead(&store) == 0 &&
      sm_store_activate(&store, slot, blob_sizes[which], digest) == 0) {
    had_schedule = true;
  }
}

static void reserve(input *in) {
  const uint64_t timestamp = sm_store_window_start(&store) + ((uint64_t)next(in) << 14);
  const uint64_t before = sm_store_window_start(&store);
  const int result = sm_store_reserve(&store, timestamp);
  if (result == 0) {
    if (sm_store_window_start(&store) <= timestamp || sm_store_window_start(&store) < before) {
      abort();
    }
    reserved = timestamp > reserved ? timestamp : reserved;
  }
}

static void spoil(input *in) {
  const port_region region = (port_region)(next(in) % PORT_REGIONS);
  const uint32_t at = (uint32_t)(next(in) * 257U + next(in)) % flash_sizes[region];
  const uint8_t bits = next(in);
  spoilt = true;
  if (bits % 2U == 0U) {
    flash_rot(region, at, bits);
  } else {
    flash_wear(region, at, bits);
  }
}

static void step(input *in) {
  switch (next(in) % 10U) {
  case 0:
  case 1:
    put(in);
    break;
  case 2:
  case 3:
    reserve(in);
    break;
  case 4: {
    const uint32_t nth = next(in) % 12U;
    const uint32_t bytes = next(in);
    flash_cut(nth, bytes, next(in));
    break;
  }
  case 5:
    flash_fail(next(in) % 12U);
    break;
  case 6:
    flash_deny(next(in) % 12U);
    break;
  case 7:
    reset();
    break;
  case 8: {
    const int erased = sm_store_erase_ahead(&store);
    (void)erased;
    break;
  }
  default:
    spoil(in);
    break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool prepared;
  volatile size_t done = 1; /* outlives a loss of power */
  if (!prepared) {
    prepare();
    prepared = true;
  }
  if (size == 0U) {
    return 0;
  }
  const uint32_t logs = data[0] % 3U == 0U ? 1024U : data[0] % 3U == 1U ? 240U : 96U;
  const uint32_t sizes[PORT_REGIONS] = {SLOT, SLOT, logs, logs};
  memcpy(flash_sizes, sizes, sizeof sizes);
  for (unsigned i = 0; i < PORT_REGIONS; i++) {
    memset(flash[i], 0xA5, flash_sizes[i]);
  }
  flash_renew();
  flash_cut(0, 0, 0);
  flash_fail(0);
  flash_deny(0);
  /* Half of all inputs have cells that read differently; logs of two records do not promise anything then. */
  uncertain = (data[0] & 128U) != 0U && logs > 96U;
  flash_weaken(uncertain ? 2U * (data[0] & 127U) + 1U : 0U, data[0]);
  spoilt = false;
  had_schedule = false;
  counter = 0;
  reserved = 0;
  if (setjmp(flash_power_loss) != 0) {
    flash_cut(0, 0, 0);
  }
  reset();
  while (done < size) {
    input in = {data + done, size - done};
    const size_t before = done;
    done = before + 1U; /* a step that loses power is not tried again */
    step(&in);
    done = size - in.left;
    check(false);
  }
  return 0;
}
