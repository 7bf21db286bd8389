#include "textflag.h"

// Called as int clock_gettime(clockid_t DI, struct timespec *SI) is in C, on a stack that is no goroutine's.
TEXT gettime<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ	DI
	PUSHQ	SI
	SUBQ	$8, SP // a multiple of 16, as C wants it
	MOVQ	·kernels(SB), AX
	CALL	AX
	ADDQ	$8, SP
	POPQ	SI
	POPQ	DI
	CMPL	DI, $0 // CLOCK_REALTIME
	JNE	done
	MOVQ	·offset(SB), CX
	ADDQ	CX, 0(SI)
done:
	RET

// func address() uintptr
TEXT ·address(SB), NOSPLIT, $0-8
	LEAQ	gettime<>(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
