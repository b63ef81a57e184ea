/* Regions: partitions of the flash chip, mapped to memory. partitions.csv names them. */
#include <string.h>

#include "esp32.h"
#include "esp_partition.h"
#include "port.h"

/* Slots are called banks and logs journals on the outside: a rename would lose what boards have stored. */
static const char *const NAMES[PORT_REGIONS] = {
    [PORT_SLOT_A] = "bank_a", [PORT_SLOT_B] = "bank_b", [PORT_LOG_A] = "journal_a", [PORT_LOG_B] = "journal_b"};

static const esp_partition_t *partitions[PORT_REGIONS];
static const uint8_t *contents[PORT_REGIONS]; /* NULL where a partition is missing */

void regions_init(void) {
  for (unsigned region = 0; region < PORT_REGIONS; ++region) {
    const void *content = NULL;
    esp_partition_mmap_handle_t handle;
    partitions[region] = esp_partition_find_first(ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_ANY, NAMES[region]);
    if (partitions[region] && esp_partition_mmap(partitions[region], 0, partitions[region]->size,
                                                 ESP_PARTITION_MMAP_DATA, &content, &handle) == ESP_OK) {
      contents[region] = content;
    }
  }
}

size_t port_region_size(port_region region) {
  return region < PORT_REGIONS && contents[region] ? partitions[region]->size : 0U;
}

const uint8_t *port_region_read(port_region region) { return region < PORT_REGIONS ? contents[region] : NULL; }

bool port_region_lasting(void) { return true; }

/* Sector by sector: some chips take a tenth of a second for one, and the watchdog waits for half a second. */
int port_region_erase(port_region region) {
  const size_t size = port_region_size(region);
  for (size_t done = 0; done < size; done += partitions[region]->erase_size) {
    port_watchdog_feed();
    if (esp_partition_erase_range(partitions[region], done, partitions[region]->erase_size) != ESP_OK) {
      return -1;
    }
  }
  return size > 0U ? 0 : -1;
}

int port_region_write(port_region region, size_t offset, const uint8_t *from, size_t size) {
  const size_t room = port_region_size(region);
  if (room == 0U || offset > room || size > room - offset || offset % PORT_WRITE_UNIT != 0U ||
      size % PORT_WRITE_UNIT != 0U || esp_partition_write(partitions[region], offset, from, size) != ESP_OK) {
    return -1;
  }
  return memcmp(contents[region] + offset, from, size) == 0 ? 0 : -1;
}
