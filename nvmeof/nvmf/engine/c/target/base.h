/* SPDX-License-Identifier: BSD-3-Clause */
/* Includes and constants of the target's structures. */
#ifndef NVMF_TARGET_BASE_H
#define NVMF_TARGET_BASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "target/background.h"
#include "target/latch.h"
#include "target/mail.h"
#include "target/target.h"
#include "util/clock.h"
#include "util/fifo.h"
#include "util/line.h"
#include "util/list.h"
#include "util/stat.h"

#define CACHE_LINE 64

#endif
