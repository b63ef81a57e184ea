/* Upload and store under coverage-guided input, with resets, losses of power and memory that fails at any write.
 *
 * Whatever happens: the schedule in use is one that was announced with the key, whole; once there is one there always is
 * one; counters never go back. */
#include <stdlib.h>
#include <string.h>

#include "flash.h"
#include "sm_upload.h"

#define BLOBS 4U
#define SLOT 2048U

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

static const uint8_t key[SM_DIGEST] = {1, 2, 3};
static const uint8_t model[8] = {'m', 'o', 'd', 'e', 'l', '0', '0', '1'};
static const uint32_t blob_sizes[BLOBS] = {16, 200, 1001, SLOT};
static uint8_t blobs[BLOBS][SLOT];
static uint8_t digests[BLOBS][SM_DIGEST];
static const uint8_t board_id[PORT_BOARD_ID] = {4, 5, 6};
static uint8_t upload_key[SM_DIGEST];

static sm_store store;
static sm_upload upload;
static bool idle;
static bool had_schedule;
static uint64_t counter;
static uint64_t window_before;

static void prepare(void) {
  for (unsigned i = 0; i < BLOBS; i++) {
    for (uint32_t j = 0; j < SLOT; j++) {
      blobs[i][j] = (uint8_t)(j * (i + 3U) + (j >> 3));
    }
    memcpy(blobs[i], "SMS1", 4);
    memcpy(blobs[i] + 8, model, sizeof model);
    sm_sha256 sha;
    sm_sha256_start(&sha);
    sm_sha256_add(&sha, blobs[i], blob_sizes[i]);
    sm_sha256_end(&sha, digests[i]);
  }
  sm_sha256_derive_key(key, "stepmap upload", board_id, upload_key);
}

static void reset(void) {
  sm_store_open(&store);
  const int erased = sm_store_erase_ahead(&store);
  (void)erased;
  sm_upload_start(&upload, &store, model, key, board_id, NULL);
}

static void check(void) {
  const uint8_t *blob;
  size_t size;
  if (sm_store_schedule(&store, &blob, &size) == 0) {
    bool known = false;
    for (unsigned i = 0; i < BLOBS; i++) {
      known = known || (size == blob_sizes[i] && memcmp(blob, blobs[i], size) == 0);
    }
    if (!known) {
      abort();
    }
    had_schedule = true;
  } else if (had_schedule) {
    abort();
  }
  if (store.current.counter < counter || sm_store_window_start(&store) < window_before) {
    abort();
  }
  counter = store.current.counter;
  window_before = sm_store_window_start(&store);
}

static void take(uint32_t id, const void *payload, uint8_t size) {
  const sm_message message = {.id = id, .system = 255, .component = 1, .size = size, .payload = payload};
  mavlink_upload_status_t status;
  bool activated = false;
  const int result = sm_upload_take(&upload, &message, idle, &status, &activated);
  if (result == 0 && (status.result >= STEPMAP_RESULT_ENUM_END || status.next > status.size ||
                      (activated && (!idle || id != MAVLINK_MSG_ID_UPLOAD_COMMIT)))) {
    abort();
  }
}

static void begin(input *in) {
  const unsigned which = next(in) % BLOBS;
  mavlink_upload_begin_t m;
  memset(&m, 0, sizeof m);
  m.counter = store.current.counter + next(in) % 3U;
  m.size = blob_sizes[which];
  memcpy(m.digest, digests[which], sizeof m.digest);
  memcpy(m.model, model, sizeof m.model);
  m.target_system = 1;
  uint8_t change = next(in);
  if (change % 4U == 1U) { /* announced with the key, but not what it will be */
    m.digest[change % 32U] ^= change;
  }
  if (change % 4U == 2U) {
    m.size = (uint32_t)next(in) << (change % 25U);
  }
  sm_sha256_hmac(upload_key, &m, offsetof(mavlink_upload_begin_t, mac), m.mac);
  if (change % 4U == 3U) { /* without the key */
    ((uint8_t *)&m)[change % MAVLINK_MSG_ID_UPLOAD_BEGIN_LEN] ^= next(in) | 1U;
  }
  take(MAVLINK_MSG_ID_UPLOAD_BEGIN, &m, MAVLINK_MSG_ID_UPLOAD_BEGIN_LEN);
}

static void chunk(input *in) {
  const unsigned which = next(in) % BLOBS;
  const uint8_t how = next(in);
  mavlink_upload_chunk_t m;
  memset(&m, 0, sizeof m);
  m.offset = how % 8U == 0U ? (uint32_t)next(in) * 8U : upload.next;
  m.length = how % 8U == 1U ? next(in) : 192U;
  if (m.offset < blob_sizes[which]) {
    const uint32_t left = blob_sizes[which] - m.offset;
    m.length = left < m.length ? (uint8_t)left : m.length;
    memcpy(m.data, blobs[which] + m.offset, m.length < sizeof m.data ? m.length : sizeof m.data);
  }
  if (how % 8U == 2U) {
    m.data[next(in) % sizeof m.data] ^= 1U;
  }
  take(MAVLINK_MSG_ID_UPLOAD_CHUNK, &m, MAVLINK_MSG_ID_UPLOAD_CHUNK_LEN);
}

static void step(input *in) {
  uint8_t raw[MAVLINK_MAX_DIALECT_PAYLOAD_SIZE];
  const uint8_t what = next(in) % 12U;
  if (what < 2U) {
    begin(in);
  } else if (what < 6U) {
    chunk(in);
  } else if (what == 6U) {
    take(MAVLINK_MSG_ID_UPLOAD_COMMIT, (const uint8_t[10]){1}, 10);
  } else if (what == 7U) {
    mavlink_upload_commit_t m;
    memset(&m, 0, sizeof m);
    memcpy(m.digest, digests[next(in) % BLOBS], sizeof m.digest);
    take(MAVLINK_MSG_ID_UPLOAD_COMMIT, &m, MAVLINK_MSG_ID_UPLOAD_COMMIT_LEN);
  } else if (what == 8U) {
    const uint32_t nth = next(in) % 24U;
    const uint32_t bytes = next(in);
    flash_cut(nth, bytes, next(in));
  } else if (what == 9U) {
    flash_fail(next(in) % 24U);
  } else if (what == 10U) {
    const uint8_t how = next(in);
    idle = how % 4U != 0U;
    const int result =
        how % 8U == 1U ? sm_store_reserve(&store, sm_store_window_start(&store) + (uint64_t)how * 4096U) : 0;
    if (result == SM_ESIZE) {
      abort();
    }
    if (how % 8U == 2U) {
      reset();
    }
  } else {
    const uint32_t id = MAVLINK_MSG_ID_HEARTBEAT + next(in) % 20U;
    const mavlink_msg_entry_t *entry = mavlink_get_msg_entry(id);
    const uint8_t room = entry != NULL ? entry->max_msg_len : sizeof raw;
    const uint8_t size = next(in) % (room + 1U);
    for (size_t i = 0; i < size; i++) {
      raw[i] = next(in);
    }
    take(id, raw, size);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool prepared;
  volatile size_t done = 0; /* outlives a loss of power */
  if (!prepared) {
    prepare();
    prepared = true;
  }
  const uint32_t logs = size > 0U && data[0] % 2U == 0U ? 240U : 96U;
  const uint32_t sizes[PORT_REGIONS] = {SLOT, SLOT, logs, logs};
  memcpy(flash_sizes, sizes, sizeof sizes);
  for (unsigned i = 0; i < PORT_REGIONS; i++) {
    memset(flash[i], 0xA5, flash_sizes[i]);
  }
  flash_cut(0, 0, 0);
  flash_fail(0);
  idle = true;
  had_schedule = false;
  counter = 0;
  window_before = 0;
  if (setjmp(flash_power_loss) != 0) {
    flash_cut(0, 0, 0);
  }
  reset();
  check();
  while (done < size) {
    input in = {data + done, size - done};
    const size_t before = done;
    done = before + 1U; /* a step that loses power is not tried again */
    step(&in);
    done = size - in.left;
    check();
  }
  return 0;
}
