-- SPDX-License-Identifier: BSD-3-Clause
-- NVMe-oF capsules over iWARP, and those over RoCE that Wireshark itself leaves as data.
--
--     tshark -X lua_script:FILE --disable-protocol nvme-tcp -r io.pcapng -Y nvmeof
--
-- Wireshark has a dissector of NVMe-oF for InfiniBand and RoCE only, and takes port 4420 of TCP for
-- NVMe/TCP, which has to be disabled for iWARP.

local nvmeof = Proto("nvmeof", "NVMe over Fabrics capsule")

local admin = {
    [0x00] = "Delete I/O Submission Queue", [0x01] = "Create I/O Submission Queue",
    [0x02] = "Get Log Page", [0x04] = "Delete I/O Completion Queue",
    [0x05] = "Create I/O Completion Queue", [0x06] = "Identify", [0x08] = "Abort",
    [0x09] = "Set Features", [0x0a] = "Get Features", [0x0c] = "Asynchronous Event Request",
    [0x0d] = "Namespace Management", [0x18] = "Keep Alive",
}
local io = {
    [0x00] = "Flush", [0x01] = "Write", [0x02] = "Read", [0x04] = "Write Uncorrectable",
    [0x05] = "Compare", [0x08] = "Write Zeroes", [0x09] = "Dataset Management",
    [0x0c] = "Verify", [0x0d] = "Reservation Register", [0x0e] = "Reservation Report",
    [0x11] = "Reservation Acquire", [0x15] = "Reservation Release", [0x19] = "Copy",
}
local fabrics = {
    [0x00] = "Property Set", [0x01] = "Connect", [0x04] = "Property Get",
    [0x05] = "Authentication Send", [0x06] = "Authentication Receive", [0x08] = "Disconnect",
}
local FABRICS, CONNECT = 0x7f, 0x01

local f = {
    opcode = ProtoField.uint8("nvmeof.cmd.opc", "Opcode", base.HEX),
    name = ProtoField.string("nvmeof.cmd.name", "Command"),
    flags = ProtoField.uint8("nvmeof.cmd.flags", "FUSE and PSDT", base.HEX),
    cid = ProtoField.uint16("nvmeof.cid", "Command Identifier", base.HEX),
    fctype = ProtoField.uint8("nvmeof.cmd.fctype", "Fabrics Command Type", base.HEX),
    nsid = ProtoField.uint32("nvmeof.cmd.nsid", "Namespace Identifier"),
    address = ProtoField.uint64("nvmeof.sgl.address", "SGL address", base.HEX),
    length = ProtoField.uint32("nvmeof.sgl.length", "SGL length"),
    key = ProtoField.uint32("nvmeof.sgl.key", "SGL key", base.HEX),
    kind = ProtoField.uint8("nvmeof.sgl.type", "SGL type", base.HEX),
    slba = ProtoField.uint64("nvmeof.cmd.slba", "Starting LBA"),
    nlb = ProtoField.uint16("nvmeof.cmd.nlb", "Number of Logical Blocks, 0's based"),
    qid = ProtoField.uint16("nvmeof.connect.qid", "Queue Identifier"),
    dw10 = ProtoField.uint32("nvmeof.cmd.cdw10", "Dword 10", base.HEX),
    dw11 = ProtoField.uint32("nvmeof.cmd.cdw11", "Dword 11", base.HEX),
    data = ProtoField.bytes("nvmeof.cmd.data", "Data in the capsule"),
    result = ProtoField.uint64("nvmeof.cqe.result", "Dwords 0 and 1", base.HEX),
    sqhd = ProtoField.uint16("nvmeof.cqe.sqhd", "SQ Head Pointer"),
    sct = ProtoField.uint8("nvmeof.cqe.sct", "Status Code Type", base.HEX),
    sc = ProtoField.uint8("nvmeof.cqe.sc", "Status Code", base.HEX),
    dnr = ProtoField.bool("nvmeof.cqe.dnr", "Do Not Retry"),
}
nvmeof.fields = {
    f.opcode, f.name, f.flags, f.cid, f.fctype, f.nsid, f.address, f.length, f.key, f.kind,
    f.slba, f.nlb, f.qid, f.dw10, f.dw11, f.data, f.result, f.sqhd, f.sct, f.sc, f.dnr,
}

local rdmap_opcode = Field.new("iwarp_rdma.opcode")
local stream_number = Field.new("tcp.stream")
local bth_opcode = Field.new("infiniband.bth.opcode")
local bth_queue = Field.new("infiniband.bth.destqp")

local queues = {} -- the QID of each connection, from its Connect

local function command(buf, pinfo, tree, connection)
    local opcode, name = buf(0, 1):uint(), nil
    if opcode == FABRICS then
        local fctype = buf(4, 1):uint()
        name = fabrics[fctype] or string.format("fabrics command %02xh", fctype)
        if fctype == CONNECT then
            queues[connection] = buf(42, 2):le_uint()
        end
    elseif queues[connection] == 0 then
        name = admin[opcode]
    else
        name = io[opcode]
    end
    name = name or string.format("command %02xh", opcode)
    local t = tree:add(nvmeof, buf(), "NVMe-oF command: " .. name)
    t:add(f.opcode, buf(0, 1))
    t:add(f.name, buf(0, 1), name)
    t:add(f.flags, buf(1, 1))
    t:add_le(f.cid, buf(2, 2))
    if opcode == FABRICS then
        t:add(f.fctype, buf(4, 1))
        if buf(4, 1):uint() == CONNECT then
            t:add_le(f.qid, buf(42, 2))
        end
    else
        t:add_le(f.nsid, buf(4, 4))
    end
    t:add_le(f.address, buf(24, 8))
    if bit.rshift(buf(39, 1):uint(), 4) == 4 then
        t:add_le(f.length, buf(32, 3))
        t:add_le(f.key, buf(35, 4))
    else
        t:add_le(f.length, buf(32, 4))
    end
    t:add(f.kind, buf(39, 1))
    if queues[connection] ~= 0 and opcode ~= FABRICS and opcode >= 1 and opcode <= 0x0c then
        t:add_le(f.slba, buf(40, 8))
        t:add_le(f.nlb, buf(48, 2))
    else
        t:add_le(f.dw10, buf(40, 4))
        t:add_le(f.dw11, buf(44, 4))
    end
    if buf:len() > 64 then
        t:add(f.data, buf(64))
    end
    pinfo.cols.info = string.format("%s, CID %04xh", name, buf(2, 2):le_uint())
end

local function response(buf, pinfo, tree)
    local status = bit.rshift(buf(14, 2):le_uint(), 1)
    local sct, sc = bit.band(bit.rshift(status, 8), 7), bit.band(status, 0xff)
    local t = tree:add(nvmeof, buf(), "NVMe-oF response")
    t:add_le(f.result, buf(0, 8))
    t:add_le(f.sqhd, buf(8, 2))
    t:add_le(f.cid, buf(12, 2))
    t:add(f.sct, buf(14, 2), sct)
    t:add(f.sc, buf(14, 2), sc)
    t:add(f.dnr, buf(14, 2), bit.band(status, 0x4000) ~= 0)
    pinfo.cols.info = string.format("Response, CID %04xh, SCT %xh, SC %02xh",
                                    buf(12, 2):le_uint(), sct, sc)
end

local function capsule(buf, pinfo, tree, connection)
    if buf:len() >= 64 and bit.band(buf(1, 1):uint(), 0xc0) == 0x40 then
        command(buf, pinfo, tree, connection)
    elseif buf:len() == 16 then
        response(buf, pinfo, tree)
    else
        return false
    end
    pinfo.cols.protocol = "NVMe-oF"
    return true
end

function nvmeof.dissector(buf, pinfo, tree)
    return capsule(buf, pinfo, tree, "") and buf:len() or 0
end

function nvmeof.init()
    queues = {}
end

nvmeof:register_heuristic("iwarp_ddp_rdmap", function(buf, pinfo, tree)
    -- the last one is that of this message: a packet may have several
    local opcodes, stream = { rdmap_opcode() }, stream_number()
    local opcode = opcodes[#opcodes]
    if not opcode or opcode.value < 3 or opcode.value > 6 then
        return false
    end
    return capsule(buf, pinfo, tree, "tcp " .. tostring(stream and stream.value))
end)

local sends = { [0x04] = true, [0x17] = true }

nvmeof:register_heuristic("infiniband.payload", function(buf, pinfo, tree)
    local opcode, queue = bth_opcode(), bth_queue()
    if not opcode or not sends[opcode.value] then
        return false
    end
    return capsule(buf, pinfo, tree, tostring(pinfo.dst) .. " " .. tostring(queue and queue.value))
end)
