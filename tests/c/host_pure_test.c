/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the host side that need no connection: names, latency histograms, fio's transport ids. */
#include "../../initiator/fio/trid.c"
#include "check.h"
#include "host/histogram.h"
#include "host/host.h"

static void test_names(void)
{
	CHECK_STR(host_nvme_status_name(NVME_LBA_OUT_OF_RANGE | NVME_DNR, false), "LBA Out of Range");
	CHECK_STR(host_nvme_status_name(0x182, false), "Attempted Write to Read Only Range");
	CHECK_STR(host_nvme_status_name(0x182, true), "Connect Invalid Parameters");
	CHECK_STR(host_nvme_status_name(0x7fe, true), "unknown status");
}

static void test_histogram(void)
{
	static struct histogram h;
	bool close = true;

	for (uint64_t v = 1; v < 1ull << 46; v += v / 3 + 1) {
		memset(&h, 0, sizeof(h));
		histogram_add(&h, v);

		const double got = histogram_percentile(&h, 50);

		close &= got > (double)v * 0.99 && got < (double)v * 1.01;
	}
	CHECK(close);
	memset(&h, 0, sizeof(h));
	for (unsigned i = 1; i <= 1000; i++)
		histogram_add(&h, i * 1000);
	CHECK(histogram_percentile(&h, 50) > 495e3 && histogram_percentile(&h, 50) < 505e3);
	CHECK(histogram_percentile(&h, 99) > 980e3 && histogram_percentile(&h, 99) < 1000e3);
}

static void test_trid(void)
{
	struct trid t = { .trsvcid = "4420" };
	char err[300];

	CHECK(!trid_parse(&t, "trtype=RDMA adrfam=IPv4 traddr=192.0.2.1 trsvcid=4421 "
			  "subnqn=nqn.2026-11.io.example:disk nsid=3", err, sizeof(err)));
	CHECK_STR(t.traddr, "192.0.2.1");
	CHECK_STR(t.trsvcid, "4421");
	CHECK_STR(t.subnqn, "nqn.2026-11.io.example:disk");
	CHECK(t.nsid == 3);
	memset(&t, 0, sizeof(t));
	CHECK(!trid_parse(&t, "traddr:::1 subnqn:nqn.2026-11.io.example\\:d ns=2", err, sizeof(err)));
	CHECK_STR(t.traddr, "::1");
	CHECK_STR(t.subnqn, "nqn.2026-11.io.example:d");
	memset(&t, 0, sizeof(t));
	CHECK(!trid_parse(&t, "nvme+rdma://[2001:db8::1]:4422/nqn.x%3Ay?ns=5&hostnqn=nqn.h", err,
			  sizeof(err)));
	CHECK_STR(t.traddr, "2001:db8::1");
	CHECK_STR(t.trsvcid, "4422");
	CHECK_STR(t.subnqn, "nqn.x:y");
	CHECK_STR(t.hostnqn, "nqn.h");
	CHECK(t.nsid == 5);
	memset(&t, 0, sizeof(t));
	CHECK(!trid_parse(&t, "nvme+rdma://host\\:44/nqn.x", err, sizeof(err)));
	CHECK_STR(t.traddr, "host");
	CHECK_STR(t.trsvcid, "44");
	CHECK(trid_parse(&t, "traddr=1.2.3.4 disk", err, sizeof(err)) && strstr(err, "\"disk\""));
	CHECK(trid_parse(&t, "trtype=tcp", err, sizeof(err)) && strstr(err, "rdma only"));
	CHECK(trid_parse(&t, "nsid=0", err, sizeof(err)) && strstr(err, "nsid 0"));
	CHECK(!trid_parse(&t, "trsvcid=65535", err, sizeof(err)));
	CHECK(trid_parse(&t, "nvme+rdma://host:abc/nqn.x", err, sizeof(err)) &&
	      strstr(err, "trsvcid abc is not a port (1 to 65535)"));
	CHECK(trid_parse(&t, "trsvcid=0", err, sizeof(err)) && strstr(err, "trsvcid 0 is"));
	CHECK(trid_parse(&t, "trsvcid=65536", err, sizeof(err)) && strstr(err, "trsvcid 65536 is"));
	CHECK(trid_parse(&t, "trsvcid=-1", err, sizeof(err)) && strstr(err, "trsvcid -1 is"));
	CHECK(trid_parse(&t, "traddr=", err, sizeof(err)) && strstr(err, "empty"));
	CHECK(trid_looks_like(" traddr=x") && !trid_looks_like("job.0.0"));
}

int main(int argc, char **argv)
{
	check_begin(&argc, argv);
	test_names();
	test_histogram();
	test_trid();
	return check_report();
}
