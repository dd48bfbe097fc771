"""Every public name of mpi4py.MPI 4.1: what is not simulated is refused by name; a typo is no name at all."""

from __future__ import annotations

from labkit.comm.surface import MAKERS, METHODS, REQUESTS

__all__ = [
    "COMM", "DATATYPE", "FILE", "GROUP", "INFO", "MODULE", "OP", "REQUEST", "SESSION", "STATUS", "TOPOLOGY",
    "WIN",
]  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: names of the module
MODULE = _words(
    """
    AINT ANY_SOURCE ANY_TAG APPNUM Add_error_class Add_error_code Add_error_string Aint_add Aint_diff
    Alloc_mem Attach_buffer BAND BFLOAT16_T BOOL BOR BOTTOM BSEND_OVERHEAD BUFFER_AUTOMATIC BXOR BYTE
    BottomType BufferAutomaticType CART CHAR CHARACTER COMBINER_CONTIGUOUS COMBINER_DARRAY COMBINER_DUP
    COMBINER_F90_COMPLEX COMBINER_F90_INTEGER COMBINER_F90_REAL COMBINER_HINDEXED COMBINER_HINDEXED_BLOCK
    COMBINER_HVECTOR COMBINER_INDEXED COMBINER_INDEXED_BLOCK COMBINER_NAMED COMBINER_RESIZED COMBINER_STRUCT
    COMBINER_SUBARRAY COMBINER_VALUE_INDEX COMBINER_VECTOR COMM_NULL COMM_SELF COMM_TYPE_HW_GUIDED
    COMM_TYPE_HW_UNGUIDED COMM_TYPE_RESOURCE_GUIDED COMM_TYPE_SHARED COMM_WORLD COMPLEX COMPLEX16 COMPLEX32
    COMPLEX4 COMPLEX8 CONGRUENT COUNT CXX_BOOL CXX_DOUBLE_COMPLEX CXX_FLOAT_COMPLEX CXX_LONG_DOUBLE_COMPLEX
    C_BOOL C_COMPLEX C_DOUBLE_COMPLEX C_FLOAT_COMPLEX C_LONG_DOUBLE_COMPLEX Cartcomm Close_port Comm
    Compute_dims DATATYPE_NULL DISPLACEMENT_CURRENT DISP_CUR DISTRIBUTE_BLOCK DISTRIBUTE_CYCLIC
    DISTRIBUTE_DFLT_DARG DISTRIBUTE_NONE DIST_GRAPH DOUBLE DOUBLE_COMPLEX DOUBLE_INT DOUBLE_PRECISION
    Datatype Detach_buffer Distgraphcomm ERRHANDLER_NULL ERRORS_ABORT ERRORS_ARE_FATAL ERRORS_RETURN ERR_ABI
    ERR_ACCESS ERR_AMODE ERR_ARG ERR_ASSERT ERR_BAD_FILE ERR_BASE ERR_BUFFER ERR_COMM ERR_CONVERSION
    ERR_COUNT ERR_DIMS ERR_DISP ERR_DUP_DATAREP ERR_ERRHANDLER ERR_FILE ERR_FILE_EXISTS ERR_FILE_IN_USE
    ERR_GROUP ERR_INFO ERR_INFO_KEY ERR_INFO_NOKEY ERR_INFO_VALUE ERR_INTERN ERR_IN_STATUS ERR_IO ERR_KEYVAL
    ERR_LASTCODE ERR_LOCKTYPE ERR_NAME ERR_NOT_SAME ERR_NO_MEM ERR_NO_SPACE ERR_NO_SUCH_FILE ERR_OP
    ERR_OTHER ERR_PENDING ERR_PORT ERR_PROC_ABORTED ERR_PROC_FAILED ERR_PROC_FAILED_PENDING ERR_QUOTA
    ERR_RANK ERR_READ_ONLY ERR_REQUEST ERR_REVOKED ERR_RMA_ATTACH ERR_RMA_CONFLICT ERR_RMA_FLAVOR
    ERR_RMA_RANGE ERR_RMA_SHARED ERR_RMA_SYNC ERR_ROOT ERR_SERVICE ERR_SESSION ERR_SIZE ERR_SPAWN ERR_TAG
    ERR_TOPOLOGY ERR_TRUNCATE ERR_TYPE ERR_UNKNOWN ERR_UNSUPPORTED_DATAREP ERR_UNSUPPORTED_OPERATION
    ERR_VALUE_TOO_LARGE ERR_WIN Errhandler Exception FILE_NULL FLOAT FLOAT16_T FLOAT32_T FLOAT64_T FLOAT_INT
    F_BOOL F_COMPLEX F_DOUBLE F_DOUBLE_COMPLEX F_ERROR F_FLOAT F_FLOAT_COMPLEX F_INT F_SOURCE F_STATUS_SIZE
    F_TAG File Finalize Flush_buffer Free_mem GRAPH GROUP_EMPTY GROUP_NULL Get_abi_fortran_info Get_abi_info
    Get_abi_version Get_address Get_error_class Get_error_string Get_hw_resource_info Get_library_version
    Get_processor_name Get_version Graphcomm Grequest Group IDENT INFO_ENV INFO_NULL INT INT16_T INT32_T
    INT64_T INT8_T INTEGER INTEGER1 INTEGER16 INTEGER2 INTEGER4 INTEGER8 INT_INT IN_PLACE IO Iflush_buffer
    InPlaceType Info Init Init_thread Intercomm Intracomm Is_finalized Is_initialized Is_thread_main
    KEYVAL_INVALID LAND LASTUSEDCODE LOCK_EXCLUSIVE LOCK_SHARED LOGICAL LOGICAL1 LOGICAL16 LOGICAL2 LOGICAL4
    LOGICAL8 LONG LONG_DOUBLE LONG_DOUBLE_INT LONG_INT LONG_LONG LOR LXOR Lookup_name MAX MAXLOC
    MAX_DATAREP_STRING MAX_ERROR_STRING MAX_INFO_KEY MAX_INFO_VAL MAX_LIBRARY_VERSION_STRING MAX_OBJECT_NAME
    MAX_PORT_NAME MAX_PROCESSOR_NAME MAX_PSET_NAME_LEN MAX_STRINGTAG_LEN MESSAGE_NO_PROC MESSAGE_NULL MIN
    MINLOC MODE_APPEND MODE_CREATE MODE_DELETE_ON_CLOSE MODE_EXCL MODE_NOCHECK MODE_NOPRECEDE MODE_NOPUT
    MODE_NOSTORE MODE_NOSUCCEED MODE_RDONLY MODE_RDWR MODE_SEQUENTIAL MODE_UNIQUE_OPEN MODE_WRONLY Message
    NO_OP OFFSET OP_NULL ORDER_C ORDER_F ORDER_FORTRAN Op Open_port PACKED PROC_NULL PROD Pcontrol Pickle
    Prequest Publish_name Query_thread REAL REAL16 REAL2 REAL4 REAL8 REPLACE REQUEST_NULL ROOT
    Register_datarep Remove_error_class Remove_error_code Remove_error_string Request SEEK_CUR SEEK_END
    SEEK_SET SESSION_NULL SHORT SHORT_INT SIGNED_CHAR SIGNED_INT SIGNED_LONG SIGNED_LONG_LONG SIGNED_SHORT
    SIMILAR SINT16_T SINT32_T SINT64_T SINT8_T SUBVERSION SUCCESS SUM Session Status TAG_UB THREAD_FUNNELED
    THREAD_MULTIPLE THREAD_SERIALIZED THREAD_SINGLE TWOINT TYPECLASS_COMPLEX TYPECLASS_INTEGER
    TYPECLASS_LOGICAL TYPECLASS_REAL Topocomm UINT16_T UINT32_T UINT64_T UINT8_T UNDEFINED UNEQUAL
    UNIVERSE_SIZE UNSIGNED UNSIGNED_CHAR UNSIGNED_INT UNSIGNED_LONG UNSIGNED_LONG_LONG UNSIGNED_SHORT
    UNWEIGHTED Unpublish_name VERSION WCHAR WEIGHTS_EMPTY WIN_BASE WIN_CREATE_FLAVOR WIN_DISP_UNIT
    WIN_FLAVOR WIN_FLAVOR_ALLOCATE WIN_FLAVOR_CREATE WIN_FLAVOR_DYNAMIC WIN_FLAVOR_SHARED WIN_MODEL WIN_NULL
    WIN_SEPARATE WIN_SIZE WIN_UNIFIED WTIME_IS_GLOBAL Win Wtick Wtime buffer get_vendor memory pickle
    """
)

_NEIGHBOR = frozenset(row.name for row in METHODS if row.kind == "neighbor")
_METHODS = frozenset((*(row.name for row in METHODS), *MAKERS)) - _NEIGHBOR - {"Sub"}
_REQUESTS = frozenset(row.name for row in REQUESTS)

#: attributes of communicators without a topology
COMM = _METHODS | _words(
    """
    Abort Accept Ack_failed Agree Attach_buffer Call_errhandler Cart_map Compare Connect Create_errhandler
    Create_from_group Create_from_groups Create_keyval Delete_attr Detach_buffer Disconnect Flush_buffer
    Free Free_keyval Get_attr Get_errhandler Get_failed Get_group Get_info Get_name Get_parent Get_rank
    Get_remote_group Get_remote_size Get_size Get_topology Graph_map Iagree Idup Idup_with_info
    Iflush_buffer Is_inter Is_intra Is_revoked Ishrink Join Precv_init Psend_init Revoke Set_attr
    Set_errhandler Set_info Set_name Shrink Spawn Spawn_multiple f2py free fromhandle fromint group handle
    info is_inter is_intra is_topo name py2f rank remote_group remote_size size toint topology
    """
)

#: attributes of communicators with a topology, besides
TOPOLOGY = _NEIGHBOR | _words(
    """
    Get_cart_rank Get_coords Get_dim Get_dims Get_dist_neighbors Get_dist_neighbors_count Get_neighbors
    Get_neighbors_count Get_topo Shift Sub coords degrees dim dims edges indegree index inedges inoutedges
    ndim nedges neighbors nneighbors nnodes outdegree outedges periods topo
    """
)

#: attributes of requests of any kind
REQUEST = _REQUESTS | _words(
    """
    Cancel Complete Free Get_status Get_status_all Get_status_any Get_status_some Parrived Pready
    Pready_list Pready_range Start Startall cancel complete f2py free fromhandle fromint get_status
    get_status_all get_status_any get_status_some handle py2f toint
    """
)

#: attributes of a status
STATUS = _words(
    """
    Get_count Get_elements Get_error Get_source Get_tag Is_cancelled Set_cancelled Set_elements Set_error
    Set_source Set_tag cancelled count error f2py py2f source tag tomemory
    """
)

#: attributes of a datatype
DATATYPE = _words(
    """
    Commit Create_contiguous Create_darray Create_dup Create_f90_complex Create_f90_integer Create_f90_real
    Create_hindexed Create_hindexed_block Create_hvector Create_indexed Create_indexed_block Create_keyval
    Create_resized Create_struct Create_subarray Create_vector Delete_attr Dup Free Free_keyval Get_attr
    Get_contents Get_envelope Get_extent Get_name Get_size Get_true_extent Get_value_index Match_size Pack
    Pack_external Pack_external_size Pack_size Resized Set_attr Set_name Unpack Unpack_external combiner
    contents decode envelope extent f2py free fromcode fromhandle fromint handle is_named is_predefined lb
    name py2f size tocode toint true_extent true_lb true_ub typechar typestr ub
    """
)

#: attributes of an operator
OP = _words(
    """
    Create Free Is_commutative Reduce_local f2py free fromhandle fromint handle is_commutative is_predefined
    py2f toint
    """
)

#: attributes of a session
SESSION = _words(
    """
    Attach_buffer Call_errhandler Create_errhandler Create_group Detach_buffer Finalize Flush_buffer
    Get_errhandler Get_info Get_nth_pset Get_num_psets Get_pset_info Iflush_buffer Init Set_errhandler f2py
    free fromhandle fromint handle py2f toint
    """
)

#: attributes of a group
GROUP = _words(
    """
    Compare Create_from_session_pset Difference Dup Excl Free Get_rank Get_size Incl Intersect Intersection
    Range_excl Range_incl Translate_ranks Union f2py free fromhandle fromint handle py2f rank size toint
    """
)

#: attributes of an info object
INFO = _words(
    """
    Create Create_env Delete Dup Free Get Get_nkeys Get_nthkey Set clear copy f2py free fromhandle fromint
    get handle items keys pop popitem py2f toint update values
    """
)

#: attributes of a window
WIN = _words(
    """
    Accumulate Allocate Allocate_shared Attach Call_errhandler Compare_and_swap Complete Create Create_dynamic
    Create_errhandler Create_keyval Delete_attr Detach Fence Fetch_and_op Flush Flush_all Flush_local
    Flush_local_all Free Free_keyval Get Get_accumulate Get_attr Get_errhandler Get_group Get_info Get_name
    Lock Lock_all Post Put Raccumulate Rget Rget_accumulate Rput Set_attr Set_errhandler Set_info Set_name
    Shared_query Start Sync Test Unlock Unlock_all Wait attrs f2py flavor free fromhandle fromint group
    group_rank group_size handle info model name py2f toint tomemory
    """
)

#: attributes of a file
FILE = _words(
    """
    Call_errhandler Close Create_errhandler Delete Get_amode Get_atomicity Get_byte_offset Get_errhandler
    Get_group Get_info Get_position Get_position_shared Get_size Get_type_extent Get_view Iread Iread_all
    Iread_at Iread_at_all Iread_shared Iwrite Iwrite_all Iwrite_at Iwrite_at_all Iwrite_shared Open
    Preallocate Read Read_all Read_all_begin Read_all_end Read_at Read_at_all Read_at_all_begin
    Read_at_all_end Read_ordered Read_ordered_begin Read_ordered_end Read_shared Seek Seek_shared
    Set_atomicity Set_errhandler Set_info Set_size Set_view Sync Write Write_all Write_all_begin
    Write_all_end Write_at Write_at_all Write_at_all_begin Write_at_all_end Write_ordered
    Write_ordered_begin Write_ordered_end Write_shared amode atomicity f2py free fromhandle fromint group
    group_rank group_size handle info py2f size toint
    """
)
